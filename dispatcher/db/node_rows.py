"""What a node reads and writes of its own rows: lease, active jobs, inputs, cancel flags.

Status moves are in :mod:`dispatcher.db.job_moves`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from dispatcher.db.change import raise_counter
from dispatcher.domain.status import Status

Pair = tuple[int, UUID]


@dataclass(frozen=True)
class Renewed:
    """A renewal that took effect.

    Attributes:
        at: the database's clock.
        was_suspect: the node had been silent, and its waiting jobs were returned.
    """

    at: datetime
    was_suspect: bool


def renew_lease(connection: Connection, *, node_id: int, epoch: int) -> Renewed | None:
    """Renew a node's lease: one statement on one narrow row (docs/protocols.md 2.5).

    Returns:
        None when it is refused: a higher epoch, or the node counts as lost or has left.
    """
    row = connection.execute(
        text(
            """
            WITH before AS (SELECT state FROM node_lease WHERE node_id = :node)
            UPDATE node_lease SET seq = seq + 1, renewed_at = dispatcher_now(), state = 'alive'
            FROM before
            WHERE node_id = :node AND epoch = :epoch AND node_lease.state IN ('alive', 'suspect')
            RETURNING dispatcher_now(), before.state
            """
        ),
        {"node": node_id, "epoch": epoch},
    ).one_or_none()
    return None if row is None else Renewed(row[0], row[1] == "suspect")


def leave(connection: Connection, *, node_id: int, epoch: int) -> bool:
    """Give the lease up in order: nothing runs on the node any more.

    Returns:
        Whether it was ours to give up; the TaskManager is to be woken then.
    """
    moved = connection.execute(
        text(
            "UPDATE node_lease SET state = 'left', renewed_at = dispatcher_now()"
            " WHERE node_id = :node AND epoch = :epoch AND state IN ('alive', 'suspect')"
        ),
        {"node": node_id, "epoch": epoch},
    )
    if moved.rowcount:
        raise_counter(connection)  # reasons of pending jobs name this node
    return moved.rowcount == 1


@dataclass(frozen=True)
class NodeJob:
    """A waiting or running job of a node, or one that a run directory names.

    Attributes:
        node_epoch: the epoch that it was claimed under; None while it waits.
        before_boot: it was started before the machine was.
    """

    job_id: int
    dispatch_id: UUID | None
    node_id: int | None
    status: Status
    cancel_requested: bool
    queued_on_node: bool
    node_epoch: int | None
    before_boot: bool

    def runs(self, dispatch_id: UUID, node_id: int) -> bool:
        """Whether the row says that this dispatch is running on this node."""
        return (
            self.status is Status.RUNNING
            and self.dispatch_id == dispatch_id
            and self.node_id == node_id
        )


_NODE_JOB = """
    SELECT id, dispatch_id, node_id, status, cancel_requested, queued_on_node, node_epoch,
        COALESCE(started < dispatcher_now() - make_interval(secs => :uptime), false)
    FROM job
"""


def active_jobs(connection: Connection, node_id: int, *, uptime: float) -> list[NodeJob]:
    """The node's waiting and running jobs, those that wait longest first.

    Args:
        uptime: seconds since the machine's boot.
    """
    rows = connection.execute(
        text(
            _NODE_JOB + " WHERE node_id = :node AND status IN ('waiting', 'running')"
            " ORDER BY waiting_since, id"
        ),
        {"node": node_id, "uptime": uptime},
    )
    return [_node_job(row) for row in rows]


def jobs_by_id(connection: Connection, job_ids: Sequence[int], *, uptime: float) -> list[NodeJob]:
    """Jobs whatever their state and node."""
    if not job_ids:
        return []
    rows = connection.execute(
        text(_NODE_JOB + " WHERE id = ANY(:jobs)"), {"jobs": list(job_ids), "uptime": uptime}
    )
    return [_node_job(row) for row in rows]


def _node_job(row: Any) -> NodeJob:
    return NodeJob(row[0], row[1], row[2], Status(row[3]), row[4], row[5], row[6], row[7])


def mark_queued(connection: Connection, pairs: Sequence[Pair]) -> None:
    """Say that waiting jobs are held until this node has room, so that nobody returns them."""
    connection.execute(
        text(
            """
            UPDATE job SET queued_on_node = true
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:dispatches AS uuid[]))
                AS v(job_id, dispatch_id)
            WHERE job.id = v.job_id AND job.dispatch_id = v.dispatch_id
              AND job.status = 'waiting' AND NOT job.queued_on_node
            """
        ),
        arrays(pairs),
    )


def canceled_among(connection: Connection, pairs: Sequence[Pair]) -> set[UUID]:
    """Dispatches that are running and whose cancel was requested."""
    if not pairs:
        return set()
    rows = connection.execute(
        text(
            """
            SELECT job.dispatch_id
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:dispatches AS uuid[]))
                AS v(job_id, dispatch_id)
            JOIN job ON job.id = v.job_id AND job.dispatch_id = v.dispatch_id
            WHERE job.status = 'running' AND job.cancel_requested
            """
        ),
        arrays(pairs),
    )
    return set(rows.scalars())


@dataclass(frozen=True)
class JobHosts:
    """Which hosts of a stored inventory a job gets.

    Attributes:
        revision: of the inventory that ``lock_keys`` were resolved from.
        lock_keys: empty: nothing is locked.
        slice_number: 0: not a slice.
    """

    inventory_id: int
    revision: int
    lock_keys: tuple[str, ...]
    limit: str
    slice_number: int
    slice_count: int


@dataclass(frozen=True)
class JobInput:
    """What a claimed job runs.

    Attributes:
        waited: seconds from its creation to the claim.
        blocker: the code of its last pending reason; None when it was started without one.
        columns: ``job_input`` by column name, and ``kind``, ``project_id``, ``scm_type``,
            ``scm_url``, ``local_path``, ``scm_branch`` of the job.
        hosts: where its inventory is, when that is in the tables.
        has_credentials: whether it was launched with any.
    """

    job_id: int
    dispatch_id: UUID
    bundle_digest: str | None
    waited: float
    blocker: str | None
    columns: Mapping[str, Any]
    hosts: JobHosts | None = None
    has_credentials: bool = False


def read_inputs(connection: Connection, job_ids: Sequence[int]) -> list[JobInput]:
    """The inputs of claimed jobs."""
    if not job_ids:
        return []
    rows = connection.execute(
        text(
            """
            SELECT job.dispatch_id, job.bundle_digest, job.blocker,
                EXTRACT(epoch FROM job.started - job.created) AS waited, job_input.*,
                job.kind, job.project_id, scm_type, scm_url, local_path, scm_branch,
                job.inventory_id, job.inventory_revision, job.lock_keys, job.slice_number,
                job.slice_count,
                EXISTS (SELECT FROM job_credential WHERE job_id = job.id) AS has_credentials
            FROM job JOIN job_input ON job_input.job_id = job.id
            LEFT JOIN job_project ON job_project.job_id = job.id
            WHERE job.id = ANY(:jobs)
            """
        ),
        {"jobs": list(job_ids)},
    )
    inputs = []
    for row in rows.mappings():
        columns = dict(row)
        hosts = _job_hosts(columns)
        inputs.append(
            JobInput(
                hosts=hosts,
                job_id=columns.pop("job_id"),
                dispatch_id=columns.pop("dispatch_id"),
                bundle_digest=columns.pop("bundle_digest"),
                waited=float(columns.pop("waited") or 0),
                blocker=columns.pop("blocker"),
                has_credentials=columns.pop("has_credentials"),
                columns=columns,
            )
        )
    return inputs


def _job_hosts(columns: dict[str, Any]) -> JobHosts | None:
    """Takes what says where the hosts are out of the columns."""
    inventory_id = columns.pop("inventory_id")
    revision = columns.pop("inventory_revision")
    hosts = JobHosts(
        inventory_id=inventory_id or 0,
        revision=revision or 0,
        lock_keys=tuple(columns.pop("lock_keys")),
        limit=columns["limit_pattern"],
        slice_number=columns.pop("slice_number"),
        slice_count=columns.pop("slice_count"),
    )
    brings_its_own = columns["inventory"] is not None or columns["inventory_path"] is not None
    return None if inventory_id is None or brings_its_own else hosts


def arrays(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Parameters ``jobs`` and ``dispatches`` for ``unnest``."""
    return {
        "jobs": [job_id for job_id, _ in pairs],
        "dispatches": [str(dispatch_id) for _, dispatch_id in pairs],
    }
