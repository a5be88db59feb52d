"""``workflow_jobs/``: runs of workflows, and launches of job templates in slices."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Body, Response
from pydantic import BaseModel, Field, TypeAdapter
from sqlalchemy import Connection

from dispatcher.actions.launched import Launched
from dispatcher.actions.relaunch_workflow import relaunch_workflow
from dispatcher.api.auth import CallerParameter
from dispatcher.api.body import JsonRoute
from dispatcher.api.v2 import jobs, objects
from dispatcher.api.v2.cancel import CanCancel, CancelAccepted, request_cancel
from dispatcher.api.v2.jobs import JobId
from dispatcher.api.v2.launching import launch
from dispatcher.api.v2.resource import (
    ROOT,
    ListQueryParameter,
    Page,
    Row,
    filters_of,
    read_list,
    url_of,
)
from dispatcher.api.v2.workflow_job_models import WorkflowJob, WorkflowJobInList
from dispatcher.db import job_queries, workflow_job_queries
from dispatcher.domain.status import FINAL, Kind, Status
from dispatcher.domain.variables_text import show_variables
from dispatcher.errors import NotFound

router = APIRouter(prefix="/api/v2/workflow_jobs", tags=["workflow_jobs"], route_class=JsonRoute)

_WORKFLOW: Final = TypeAdapter(WorkflowJob)


class RelaunchBody(objects.Body):
    """What of a workflow runs again."""

    from_failed: bool = Field(
        False,
        description="True: nodes that succeeded keep their jobs, unless they come behind one that"
        " did not.",
    )


class CanRelaunch(BaseModel):
    """Whether a workflow job can be launched again."""

    can_relaunch: bool = Field(description="True when it has ended.")
    can_relaunch_from_failed: bool = Field(description="True when it has ended without success.")


def render_in_list(row: Row) -> dict[str, Any]:
    """A workflow job as lists show it."""
    url = url_of("workflow_jobs", row["id"])
    prompts = row["workflow_prompts"] or {}
    return {
        **jobs.render_in_list(row),
        "related": {
            **{name: f"{url}{name}/" for name in ("workflow_nodes", "cancel", "relaunch")},
            "explain": f"{url_of('jobs', row['id'])}explain/",
            "jobs": f"{ROOT}jobs/?workflow_job={row['id']}",
            **jobs.parents(row),
        },
        "is_sliced_job": row["job_template_id"] is not None,
        "inventory": prompts.get("inventory"),
        "limit": prompts.get("limit") or "",
    }


def render(row: Row) -> dict[str, Any]:
    """A workflow job with its variables and artifacts."""
    return {
        **render_in_list(row),
        "extra_vars": show_variables(row["workflow_vars"] or {}),
        "artifacts": row["artifacts"] or {},
    }


def read_workflow(connection: Connection, job_id: int) -> Row:
    """The row of a workflow job.

    Raises:
        NotFound: there is none with this number.
    """
    row = job_queries.read_job(connection, job_id)
    if row is None or row["kind"] != Kind.WORKFLOW:
        raise NotFound
    return row


@router.get(
    "/",
    summary="List the workflow jobs",
    response_model=Page[WorkflowJobInList],
    openapi_extra=filters_of(workflow_job_queries.workflow_listing()),
)
def list_workflow_jobs(caller: CallerParameter, query: ListQueryParameter) -> dict[str, Any]:
    """Runs of workflows, oldest first unless `order_by` says otherwise."""
    with caller.reading() as connection:
        return read_list(
            connection,
            query,
            workflow_job_queries.workflow_listing(),
            lambda rows: [render_in_list(row) for row in rows],
        )


@router.get("/{job_id}/", summary="One workflow job", response_model=WorkflowJob)
def get_workflow_job(caller: CallerParameter, job_id: JobId) -> dict[str, Any]:
    """A run with the variables of all its nodes."""
    with caller.reading() as connection:
        return render(read_workflow(connection, job_id))


@router.get(
    "/{job_id}/cancel/", summary="Can the workflow job be canceled?", response_model=CanCancel
)
def get_cancel(caller: CallerParameter, job_id: JobId) -> dict[str, object]:
    """True until it has ended."""
    with caller.reading() as connection:
        return {"can_cancel": read_workflow(connection, job_id)["status"] not in FINAL}


@router.post(
    "/{job_id}/cancel/",
    summary="Cancel the workflow job",
    status_code=202,
    response_model=CancelAccepted,
    responses={405: {"description": "It has ended."}},
)
def post_cancel(caller: CallerParameter, job_id: JobId) -> dict[str, object]:
    """Nodes without a job will not run, unfinished jobs of others are canceled. Asking again is
    harmless."""
    with caller.reading() as connection:
        read_workflow(connection, job_id)
    return request_cancel(caller, job_id)


@router.get(
    "/{job_id}/relaunch/",
    summary="Can the workflow job be launched again?",
    response_model=CanRelaunch,
)
def get_relaunch(caller: CallerParameter, job_id: JobId) -> dict[str, object]:
    """True when it has ended."""
    with caller.reading() as connection:
        status = read_workflow(connection, job_id)["status"]
    failed = status in FINAL and status != Status.SUCCESSFUL
    return {"can_relaunch": status in FINAL, "can_relaunch_from_failed": failed}


@router.post(
    "/{job_id}/relaunch/",
    summary="Launch the workflow job again",
    status_code=201,
    response_model=WorkflowJob,
    responses={409: {"description": "`not_final`; `nothing_failed` with `from_failed`."}},
)
def post_relaunch(
    caller: CallerParameter, job_id: JobId, body: Annotated[RelaunchBody | None, Body()] = None
) -> Response:
    """The graph that it ran, with what it was launched with."""

    def act(connection: Connection, principal: str, uuid: UUID) -> Launched:
        return relaunch_workflow(
            connection,
            job_id,
            principal=principal,
            from_failed=body is not None and body.from_failed,
            uuid=uuid,
        )

    row, _ = launch(caller, act)
    return answer(row, status_code=201)


def answer(row: Row, *, status_code: int) -> Response:
    """The answer with a workflow job that was made."""
    return Response(
        _WORKFLOW.dump_json(_WORKFLOW.validate_python(render(row))),
        status_code,
        {"Location": url_of("workflow_jobs", row["id"])},
        media_type="application/json",
    )
