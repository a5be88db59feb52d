"""What a claimed job runs, decided in the transaction that claims it (docs/scheduling.md 2)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from dispatcher.db.node_rows import arrays


def resolve_bundles(connection: Connection, job_ids: Sequence[int]) -> None:
    """Give claimed jobs of projects their content: what the newest successful update of their
    project and branch found. A job that has none stays without, and ends on the node.
    """
    if not job_ids:
        return
    connection.execute(
        text(
            """
            WITH found AS (
                SELECT job.id, newest.revision, newest.bundle_digest
                FROM job JOIN job_project mine ON mine.job_id = job.id
                CROSS JOIN LATERAL (
                    SELECT theirs.revision, theirs.bundle_digest
                    FROM job other JOIN job_project theirs ON theirs.job_id = other.id
                    WHERE other.project_id = job.project_id AND other.kind = 'project_update'
                      AND other.status = 'successful' AND theirs.scm_branch = mine.scm_branch
                      AND theirs.bundle_digest IS NOT NULL
                    ORDER BY other.finished DESC LIMIT 1
                ) newest
                WHERE job.id = ANY(CAST(:jobs AS bigint[])) AND job.bundle_digest IS NULL
                  AND job.kind IN ('playbook', 'inventory_update')
            ), noted AS (
                UPDATE job_project SET revision = found.revision,
                    bundle_digest = found.bundle_digest
                FROM found WHERE job_project.job_id = found.id
            )
            UPDATE job SET bundle_digest = found.bundle_digest FROM found WHERE job.id = found.id
            """
        ),
        {"jobs": list(job_ids)},
    )


def moved_inventories(
    connection: Connection, pairs: Sequence[tuple[int, UUID]]
) -> list[tuple[int, UUID]]:
    """Waiting dispatches whose host locks were resolved from an older inventory."""
    rows = connection.execute(
        text(
            """
            SELECT job.id, job.dispatch_id
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:dispatches AS uuid[]))
                AS v(job_id, dispatch_id)
            JOIN job ON job.id = v.job_id AND job.dispatch_id = v.dispatch_id
            JOIN inventory ON inventory.id = job.inventory_id
            WHERE job.status = 'waiting' AND job.kind = 'playbook' AND job.host_lock <> 'none'
              AND job.inventory_revision IS DISTINCT FROM inventory.revision
            """
        ),
        arrays(pairs),
    )
    return [(row.id, row.dispatch_id) for row in rows]
