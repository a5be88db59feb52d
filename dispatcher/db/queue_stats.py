"""What the cluster's gauges say of the queue: one pass over the pending jobs' index entries."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

from dispatcher.domain.status import Kind, Status


@dataclass(frozen=True)
class PendingGroup:
    """Pending jobs of one group that wait for one reason.

    Attributes:
        group: name of the first preferred instance group.
        reason: code of the reason; ``not_considered`` until a pass has looked at the job.
        oldest: seconds since the oldest of them was created.
    """

    group: str
    reason: str
    jobs: int
    oldest: float


_PENDING = text(
    """
    SELECT coalesce(instance_group.name, '') AS group_name, reason, sum(jobs), max(oldest)
    FROM (
        SELECT preferred_groups[1] AS group_id,
            coalesce(pending_reason ->> 'code', 'not_considered') AS reason,
            count(*) AS jobs,
            extract(epoch FROM dispatcher_now() - min(created)) AS oldest
        FROM job WHERE status = :pending AND kind <> :approval
        GROUP BY 1, 2
    ) AS counted
    LEFT JOIN instance_group ON instance_group.id = counted.group_id
    GROUP BY 1, 2
    """
)


def read_pending(connection: Connection) -> list[PendingGroup]:
    """The pending jobs by first preferred group and reason; approvals are not waiting for room."""
    rows = connection.execute(
        _PENDING, {"pending": str(Status.PENDING), "approval": str(Kind.APPROVAL)}
    )
    return [PendingGroup(row[0], row[1], int(row[2]), float(row[3])) for row in rows]


_ACTIVE = text(
    """
    SELECT node.name, job.status, count(*) FROM job JOIN node ON node.id = job.node_id
    WHERE job.status IN ('waiting', 'running') GROUP BY 1, 2
    """
)


def read_active(connection: Connection) -> list[tuple[str, str, int]]:
    """(node, status, jobs) of the waiting and running jobs."""
    return [(row[0], row[1], row[2]) for row in connection.execute(_ACTIVE)]
