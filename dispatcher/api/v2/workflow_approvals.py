"""``workflow_approvals/``: steps of workflows that wait for somebody to decide."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Response
from pydantic import Field
from sqlalchemy import Connection

from dispatcher import logs
from dispatcher.actions.decide_approval import decide_approval
from dispatcher.api.auth import Caller, CallerParameter
from dispatcher.api.v2 import jobs
from dispatcher.api.v2.job_models import UnifiedJob
from dispatcher.api.v2.jobs import JobId
from dispatcher.api.v2.resource import (
    ListQueryParameter,
    Page,
    Row,
    filters_of,
    read_list,
    url_of,
)
from dispatcher.db import listing as db
from dispatcher.db import workflow_job_queries
from dispatcher.domain.status import Status
from dispatcher.errors import NotFound

log = logs.get(__name__)

router = APIRouter(prefix="/api/v2/workflow_approvals", tags=["workflow_jobs"])


class WorkflowApproval(UnifiedJob):
    """A step of a workflow that somebody approves or denies."""

    can_approve_or_deny: bool = Field(description="Whether it can still be decided.")
    approval_expiration: datetime | None = Field(
        description="When nobody can decide it any more; null: never."
    )
    timed_out: bool = Field(description="Whether nobody decided it in time.")
    approved_or_denied_by: str = Field(description="Name of the token that decided it, or empty.")


def _render(row: Row) -> dict[str, Any]:
    url = url_of("workflow_approvals", row["id"])
    return {
        **jobs.render_in_list(row),
        "related": {
            **jobs.parents(row),
            "approve": f"{url}approve/",
            "deny": f"{url}deny/",
            "explain": f"{url_of('jobs', row['id'])}explain/",
        },
        "can_approve_or_deny": row["status"] == Status.PENDING and not row["late"],
        "approval_expiration": row["approval_expiration"],
        "timed_out": row["timed_out"],
        "approved_or_denied_by": row["decided_by"],
    }


def _read(connection: Connection, job_id: int) -> Row:
    row = db.read_one(connection, workflow_job_queries.approval_listing(), job_id)
    if row is None:
        raise NotFound
    return row


@router.get(
    "/",
    summary="List the approvals",
    response_model=Page[WorkflowApproval],
    openapi_extra=filters_of(workflow_job_queries.approval_listing()),
)
def list_approvals(caller: CallerParameter, query: ListQueryParameter) -> dict[str, Any]:
    """Approvals of all workflows; `status=pending` are those that wait."""
    with caller.reading() as connection:
        return read_list(
            connection,
            query,
            workflow_job_queries.approval_listing(),
            lambda rows: [_render(row) for row in rows],
        )


@router.get("/{job_id}/", summary="One approval", response_model=WorkflowApproval)
def get_approval(caller: CallerParameter, job_id: JobId) -> dict[str, Any]:
    """An approval, and who has decided it."""
    with caller.reading() as connection:
        return _render(_read(connection, job_id))


@router.post("/{job_id}/approve/", summary="Approve", status_code=204, response_class=Response)
def approve(caller: CallerParameter, job_id: JobId) -> None:
    """The workflow goes on along its success edges. Decided already: 400 says how."""
    _decide(caller, job_id, approved=True)


@router.post("/{job_id}/deny/", summary="Deny", status_code=204, response_class=Response)
def deny(caller: CallerParameter, job_id: JobId) -> None:
    """The workflow goes on along its failure edges. Decided already: 400 says how."""
    _decide(caller, job_id, approved=False)


def _decide(caller: Caller, job_id: int, *, approved: bool) -> None:
    with caller.named_transaction() as (connection, principal):
        owed = decide_approval(connection, job_id, approved=approved, principal=principal)
    log.info("approval_decided", job_id=job_id, approved=approved)
    caller.services.publisher.publish(owed)
