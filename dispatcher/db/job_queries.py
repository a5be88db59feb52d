"""What the API reads of jobs. Every statement about one job goes by primary keys only."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    bindparam,
    case,
    func,
    select,
)

from dispatcher.db.listing import Field, FieldType, Listing
from dispatcher.db.tables import (
    instance_group,
    inventory,
    job,
    job_credential,
    job_host_summary,
    job_input,
    job_progress,
    job_project,
    job_result,
    job_template,
    node,
    organization,
    project,
    workflow_input,
    workflow_job_template,
    workflow_node,
    workflow_spawn,
)
from dispatcher.domain.status import FINAL, Kind, Status

_ELAPSED = func.coalesce(
    func.extract(
        "epoch",
        func.coalesce(job.c.finished, func.dispatcher_now()) - job.c.started,
    ),
    0.0,
)
_MODIFIED = func.greatest(
    job.c.created, job.c.waiting_since, job.c.started, job.c.canceled_on, job.c.finished
)
_RETRY = job.alias("retry")
_RETRIED_BY = select(_RETRY.c.id).where(_RETRY.c.retry_of == job.c.id).scalar_subquery()
_FAILED = job.c.status.in_(sorted(FINAL - {Status.SUCCESSFUL}))


def _columns(
    organization_name: ColumnElement[Any],
    node_name: ColumnElement[Any],
    group_name: ColumnElement[Any],
    stored: ColumnElement[Any],
) -> tuple[ColumnElement[Any], ...]:
    """A job as lists show it: nothing that a caller can make large."""
    return (
        *_OWN_COLUMNS,
        *_TEMPLATE_COLUMNS,
        organization_name.label("organization_name"),
        node_name.label("node_name"),
        group_name.label("instance_group_name"),
        func.coalesce(stored, 0).label("events_stored"),
    )


_OWN_COLUMNS: Final = (
    job.c.id,
    job.c.uuid,
    job.c.kind,
    job.c.name,
    job.c.status,
    job.c.launch_type,
    job.c.launched_by,
    job.c.created,
    _MODIFIED.label("modified"),
    job.c.started,
    job.c.finished,
    job.c.canceled_on,
    _ELAPSED.label("elapsed"),
    job.c.priority,
    job.c.task_impact,
    job.c.host_lock,
    job.c.bundle_digest,
    job.c.waiting_since,
    job.c.cancel_requested,
    job.c.pending_reason,
    job.c.outcome,
    job.c.explanation,
    job.c.events_complete,
    job.c.retry_of,
    _RETRIED_BY.label("retried_by"),
    job.c.organization_id,
    job.c.instance_group_id,
    job.c.dispatch_id,
    job.c.job_template_id,
    job.c.workflow_job_template_id,
    job.c.project_id,
    job.c.inventory_id,
    job.c.inventory_source_id,
    job.c.allow_simultaneous,
    job.c.slice_number,
    job.c.slice_count,
    job_input.c.playbook,
    job_input.c.limit_pattern,
    job_input.c.inventory_path,
    job_input.c.tags,
    job_input.c.skip_tags,
    job_input.c.check_mode,
    job_input.c.diff_mode,
    job_input.c.verbosity,
    job_input.c.forks,
    job_input.c.timeout,
    job_input.c.idle_timeout,
    job_input.c.allow_no_hosts,
    job_input.c.max_unreachable,
    job_input.c.max_failed,
    job_input.c.host_key_policy,
)


def _one(column: Column[Any], key: Column[Any], reference: Column[Any]) -> Any:
    return select(column).where(key == reference).scalar_subquery()


_WORKFLOW_OF = (
    select(workflow_node.c.workflow_job_id)
    .join(workflow_spawn, workflow_spawn.c.workflow_node_id == workflow_node.c.id)
    .where(workflow_spawn.c.job_id == job.c.id)
    .scalar_subquery()
)
WORKFLOW_PROMPTS = _one(workflow_input.c.prompts, workflow_input.c.job_id, job.c.id).label(
    "workflow_prompts"
)
#: What it was launched with, also where that was deleted since; null: nothing.
_CREDENTIALS = (
    select(
        func.json_agg(
            func.json_build_object(
                "id", job_credential.c.credential_id, "name", job_credential.c.name
            )
        )
    )
    .where(job_credential.c.job_id == job.c.id)
    .scalar_subquery()
)
_NAME_OF_JOB_TEMPLATE = _one(job_template.c.name, job_template.c.id, job.c.job_template_id)
#: What a job came from, by primary keys: most jobs of a page have the same few.
_TEMPLATE_COLUMNS: Final = (
    _NAME_OF_JOB_TEMPLATE.label("job_template_name"),
    _one(
        workflow_job_template.c.name, workflow_job_template.c.id, job.c.workflow_job_template_id
    ).label("workflow_job_template_name"),
    _one(project.c.name, project.c.id, job.c.project_id).label("project_name"),
    _one(inventory.c.name, inventory.c.id, job.c.inventory_id).label("inventory_name"),
    _one(job_project.c.scm_branch, job_project.c.job_id, job.c.id).label("scm_branch"),
    _one(job_project.c.revision, job_project.c.job_id, job.c.id).label("scm_revision"),
    _WORKFLOW_OF.label("workflow_job_id"),
    _CREDENTIALS.label("credentials"),
)

#: Every job as lists show it; the listings of each kind are made from it.
JOBS = select(
    *_columns(organization.c.name, node.c.name, instance_group.c.name, job_progress.c.stored)
).select_from(
    job.join(organization, organization.c.id == job.c.organization_id)
    .outerjoin(job_input, job_input.c.job_id == job.c.id)
    .outerjoin(job_progress, job_progress.c.job_id == job.c.id)
    .outerjoin(node, node.c.id == job.c.node_id)
    .outerjoin(instance_group, instance_group.c.id == job.c.instance_group_id)
)


# One row by primary keys. Subqueries, not joins: planning seven joins took 0.8 of the 1.0 ms.
_DETAIL = select(
    *_columns(
        _one(organization.c.name, organization.c.id, job.c.organization_id),
        _one(node.c.name, node.c.id, job.c.node_id),
        _one(instance_group.c.name, instance_group.c.id, job.c.instance_group_id),
        _one(job_progress.c.stored, job_progress.c.job_id, job.c.id),
    ),
    job_input.c.extra_vars,
    _one(job_result.c.artifacts, job_result.c.job_id, job.c.id).label("artifacts"),
    _one(job_result.c.playbook_outcome, job_result.c.job_id, job.c.id).label("playbook_outcome"),
    _one(workflow_input.c.extra_vars, workflow_input.c.job_id, job.c.id).label("workflow_vars"),
    WORKFLOW_PROMPTS,
).select_from(job.outerjoin(job_input, job_input.c.job_id == job.c.id))
# made once: to build it, and to look it up among the compiled ones, took as long as to run it
_READ_JOB = _DETAIL.where(job.c.id == bindparam("job_id"))

JOB_FIELDS = {
    "id": Field(job.c.id, FieldType.INTEGER),
    "uuid": Field(job.c.uuid, FieldType.UUID),
    "name": Field(job.c.name, FieldType.TEXT),
    "status": Field(job.c.status, FieldType.TEXT),
    "failed": Field(_FAILED, FieldType.BOOLEAN),
    "outcome": Field(job.c.outcome, FieldType.TEXT),
    "launch_type": Field(job.c.launch_type, FieldType.TEXT),
    "launched_by__name": Field(job.c.launched_by, FieldType.TEXT),
    "created": Field(job.c.created, FieldType.TIME),
    "started": Field(job.c.started, FieldType.TIME),
    "finished": Field(job.c.finished, FieldType.TIME),
    "canceled_on": Field(job.c.canceled_on, FieldType.TIME),
    "cancel_requested": Field(job.c.cancel_requested, FieldType.BOOLEAN),
    "elapsed": Field(_ELAPSED, FieldType.NUMBER),
    "priority": Field(job.c.priority, FieldType.INTEGER),
    "playbook": Field(job_input.c.playbook, FieldType.TEXT),
    "limit": Field(job_input.c.limit_pattern, FieldType.TEXT),
    "job_type": Field(
        case((job_input.c.check_mode.is_(True), "check"), else_="run"), FieldType.TEXT
    ),
    "execution_node": Field(node.c.name, FieldType.TEXT),
    "instance_group": Field(job.c.instance_group_id, FieldType.INTEGER),
    "instance_group__name": Field(instance_group.c.name, FieldType.TEXT),
    "organization": Field(job.c.organization_id, FieldType.INTEGER),
    "organization__name": Field(organization.c.name, FieldType.TEXT),
    "job_template": Field(job.c.job_template_id, FieldType.INTEGER),
    "job_template__name": Field(_NAME_OF_JOB_TEMPLATE, FieldType.TEXT),
    "project": Field(job.c.project_id, FieldType.INTEGER),
    "inventory": Field(job.c.inventory_id, FieldType.INTEGER),
    "workflow_job": Field(_WORKFLOW_OF, FieldType.INTEGER),
}


def job_listing(kind: Kind = Kind.PLAYBOOK) -> Listing:
    """All jobs of one kind."""
    rows: Select[Any] = JOBS.where(job.c.kind == kind)
    return Listing(source=rows, fields=JOB_FIELDS, search=("name", "playbook"))


def read_job(connection: Connection, job_id: int) -> RowMapping | None:
    """One job with everything an answer shows."""
    return connection.execute(_READ_JOB, {"job_id": job_id}).mappings().one_or_none()


def find_by_uuid(connection: Connection, uuid: UUID) -> int | None:
    """The job that was made with this uuid (docs/protocols.md 1.6)."""
    return connection.execute(select(job.c.id).where(job.c.uuid == uuid)).scalar_one_or_none()


_SUMMARY_FIELDS = {
    "id": Field(job_host_summary.c.id, FieldType.INTEGER),
    "host_name": Field(job_host_summary.c.host_name, FieldType.TEXT),
    "failed": Field(job_host_summary.c.failed, FieldType.BOOLEAN),
    **{
        name: Field(job_host_summary.c[name], FieldType.INTEGER)
        for name in ("ok", "changed", "failures", "dark", "skipped", "rescued", "ignored")
    },
}


def host_summary_listing(job_id: int) -> Listing:
    """The host summaries of one job."""
    return Listing(
        source=select(job_host_summary).where(job_host_summary.c.job_id == job_id),
        fields=_SUMMARY_FIELDS,
        search=("host_name",),
    )
