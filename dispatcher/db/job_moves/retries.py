"""The retry of a job that was lost with its node, made in the transaction that ends the job.

A retry is a job of its own: it runs what the lost one ran, from the same content, with the same
locks, and has a retry less left (docs/protocols.md 4.9).
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

from dispatcher.db.tables import job, job_input

#: Columns that say how far a job has come, or which job it is; a retry gets everything else.
FRESH: Final = frozenset(
    {
        "blocker",
        "cancel_requested",
        "canceled_on",
        "created",
        "dependencies_processed",
        "dispatch_id",
        "events_complete",
        "explanation",
        "finished",
        "held_since",
        "id",
        "instance_group_id",
        "job_day",
        "node_epoch",
        "node_id",
        "outcome",
        "pending_reason",
        "quarantined_until",
        "queued_on_node",
        "rank",
        "retries_left",
        "retry_of",
        "started",
        "status",
        "strikes",
        "submissions",
        "submitted_at",
        "uuid",
        "waiting_since",
    }
)
_COPIED: Final = ", ".join(c.name for c in job.columns if c.name not in FRESH)
_INPUTS: Final = ", ".join(c.name for c in job_input.columns if c.name != "job_id")


def launch_retry(connection: Connection, lost: int) -> int | None:
    """Make the retry of a job that has just ended as lost; it replaces the job in its workflow.

    Its dependencies are those of the lost job, which were successful before that one started.
    There is one at most: ``retry_of`` is unique.

    Returns:
        None when the job's workflow is to be canceled. The workflow's row is not locked: a cancel
        that this does not see finds the retry among the children, because the end of the lost job
        and the retry are one commit.
    """
    retry: int | None = connection.execute(
        text(
            f"""
            INSERT INTO job (uuid, retry_of, retries_left, dependencies_processed, {_COPIED})
            SELECT gen_random_uuid(), id, retries_left - 1, true, {_COPIED}
            FROM job WHERE id = :lost AND NOT EXISTS (
                SELECT FROM workflow_node JOIN job AS workflow ON workflow.id = workflow_job_id
                WHERE workflow_node.job_id = :lost AND workflow.cancel_requested)
            RETURNING id
            """
        ),
        {"lost": lost},
    ).scalar_one_or_none()
    if retry is None:
        return None
    ids = {"lost": lost, "retry": retry}
    connection.execute(
        text(
            f"""
            WITH project AS (
                INSERT INTO job_project (job_id, scm_type, scm_url, local_path, scm_branch,
                    revision, bundle_digest)
                SELECT :retry, scm_type, scm_url, local_path, scm_branch, revision, bundle_digest
                FROM job_project WHERE job_id = :lost
            ), credentials AS (
                INSERT INTO job_credential (job_id, credential_id, name)
                SELECT :retry, credential_id, name FROM job_credential WHERE job_id = :lost
            )
            INSERT INTO job_input (job_id, {_INPUTS})
            SELECT :retry, {_INPUTS} FROM job_input WHERE job_id = :lost
            """
        ),
        ids,
    )
    connection.execute(
        text(
            """
            WITH replaced AS (
                UPDATE workflow_node SET job_id = :retry, attempt = attempt + 1
                WHERE job_id = :lost RETURNING id, attempt
            )
            INSERT INTO workflow_spawn (workflow_node_id, attempt, job_id)
            SELECT id, attempt, :retry FROM replaced
            """
        ),
        ids,
    )
    return retry
