"""Finished jobs past their retention: which may go, and their removal in batches."""

from __future__ import annotations

from sqlalchemy import Connection, text

#: Jobs whose end is long enough ago and that nothing still refers to. A workflow's children go
#: after the workflow, a lost job after its retry; what an unfinished job depends on stays.
_REMOVABLE = """
    SELECT job.id FROM job
    WHERE job.finished < dispatcher_now() - make_interval(secs => :age)
      AND NOT EXISTS (SELECT FROM workflow_node WHERE workflow_node.job_id = job.id)
      AND NOT EXISTS (SELECT FROM job AS retry WHERE retry.retry_of = job.id)
      AND NOT EXISTS (SELECT FROM job_dependency JOIN job AS dependent ON dependent.id = job_id
          WHERE depends_on_id = job.id AND dependent.finished IS NULL)
      AND NOT EXISTS (
          -- the newest content of a project and branch: jobs take theirs from it
          SELECT FROM job_project AS mine
          WHERE mine.job_id = job.id AND job.kind = 'project_update'
            AND job.status = 'successful' AND job.project_id IS NOT NULL
            AND mine.bundle_digest IS NOT NULL AND NOT EXISTS (
                SELECT FROM job AS newer JOIN job_project AS theirs ON theirs.job_id = newer.id
                WHERE newer.project_id = job.project_id AND newer.kind = 'project_update'
                  AND newer.status = 'successful' AND theirs.scm_branch = mine.scm_branch
                  AND theirs.bundle_digest IS NOT NULL
                  AND (newer.finished, newer.id) > (job.finished, job.id)))
    ORDER BY job.finished LIMIT :most FOR UPDATE OF job SKIP LOCKED
"""


def delete_finished_jobs(connection: Connection, *, age: float, most: int) -> int:
    """Delete jobs that ended long ago, with all that belongs to them but their events.

    Events go with the partition of their day (``partitions.py``).

    Args:
        age: seconds since their end.
        most: jobs of one call.

    Returns:
        How many were deleted; fewer than ``most``: there are no more now.
    """
    return connection.execute(
        text(f"DELETE FROM job WHERE id IN ({_REMOVABLE})"), {"age": age, "most": most}
    ).rowcount
