"""Which running workflows must be looked at again (docs/protocols.md 7.2)."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, text


def touch_workflows_of(connection: Connection, job_ids: Collection[int]) -> bool:
    """Note that jobs moved which may be nodes of workflows, in the transaction that moved them.

    Returns:
        Whether any workflow was touched; then the WorkflowManager is to be woken.
    """
    if not job_ids:
        return False
    touched = connection.execute(
        text(
            "INSERT INTO workflow_touch (workflow_job_id)"
            " SELECT DISTINCT workflow_job_id FROM workflow_node"
            " WHERE job_id = ANY(CAST(:jobs AS bigint[])) RETURNING id"
        ),
        {"jobs": list(job_ids)},
    )
    return touched.first() is not None


def touch_workflows(connection: Connection, workflow_job_ids: Collection[int]) -> None:
    """Note that these workflows themselves must be looked at."""
    if workflow_job_ids:
        connection.execute(
            text(
                "INSERT INTO workflow_touch (workflow_job_id)"
                " SELECT unnest(CAST(:jobs AS bigint[]))"
            ),
            {"jobs": list(workflow_job_ids)},
        )
