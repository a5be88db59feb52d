"""What the API reads of workflow jobs and approvals, which are jobs of their kinds."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Select, func

from dispatcher.db.job_queries import JOB_FIELDS, JOBS, WORKFLOW_PROMPTS
from dispatcher.db.listing import Field, FieldType, Listing
from dispatcher.db.tables import approval, job
from dispatcher.domain.status import Kind

_WORKFLOW_FIELDS: Final = {
    **{
        name: JOB_FIELDS[name]
        for name in (
            "id",
            "uuid",
            "name",
            "status",
            "failed",
            "outcome",
            "launch_type",
            "launched_by__name",
            "created",
            "started",
            "finished",
            "canceled_on",
            "cancel_requested",
            "elapsed",
            "priority",
            "organization",
            "organization__name",
            "job_template",
            "workflow_job",
        )
    },
    "workflow_job_template": Field(job.c.workflow_job_template_id, FieldType.INTEGER),
}
_APPROVAL_FIELDS: Final = {
    **{
        name: JOB_FIELDS[name]
        for name in (
            "id",
            "uuid",
            "name",
            "status",
            "failed",
            "created",
            "finished",
            "organization",
            "organization__name",
            "workflow_job",
        )
    },
    "approval_expiration": Field(approval.c.expires, FieldType.TIME),
    "timed_out": Field(approval.c.timed_out, FieldType.BOOLEAN),
}


def workflow_listing() -> Listing:
    """All workflow jobs."""
    rows: Select[Any] = JOBS.add_columns(WORKFLOW_PROMPTS).where(job.c.kind == Kind.WORKFLOW)
    return Listing(source=rows, fields=_WORKFLOW_FIELDS, search=("name",))


def approval_listing() -> Listing:
    """All approvals, with what was decided."""
    rows: Select[Any] = (
        JOBS.add_columns(
            approval.c.expires.label("approval_expiration"),
            approval.c.timed_out,
            approval.c.decided_by,
            # of the database's clock: an approval that is late cannot be decided any more
            func.coalesce(approval.c.expires <= func.dispatcher_now(), False).label("late"),
        )
        .join(approval, approval.c.job_id == job.c.id)
        .where(job.c.kind == Kind.APPROVAL)
    )
    return Listing(source=rows, fields=_APPROVAL_FIELDS, search=("name",))
