"""``jobs/N/relaunch/``: a playbook job once more, on all hosts or on those that failed."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Response
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from dispatcher.actions.launched import Launched
from dispatcher.actions.relaunch_job import count_hosts, relaunch_job
from dispatcher.api.auth import CallerParameter
from dispatcher.api.body import JsonRoute
from dispatcher.api.v2 import objects
from dispatcher.api.v2.jobs import JobId
from dispatcher.api.v2.launching import launch
from dispatcher.api.v2.prompt_fields import renamed
from dispatcher.api.v2.template_launch import LaunchedJob, launch_answer
from dispatcher.db import job_queries
from dispatcher.domain.status import FINAL, Kind
from dispatcher.errors import InvalidRequest, NotFound

router = APIRouter(prefix="/api/v2/jobs", tags=["jobs"], route_class=JsonRoute)


class RelaunchJob(objects.Body):
    """Where a job runs again."""

    hosts: str = Field("all", description="`all`, or `failed`: the hosts on which it failed.")
    credential_passwords: dict[str, Any] = Field(
        default_factory=dict, description="Must be empty: there are none."
    )


class RelaunchPage(BaseModel):
    """Whether a job can be launched again."""

    can_relaunch: bool = Field(description="True when it has ended.")
    passwords_needed_to_start: list[str] = Field(description="Always empty.")
    retry_counts: dict[str, int] = Field(
        description="Hosts that the job has results of: `all` and `failed`."
    )


@router.get(
    "/{job_id}/relaunch/", summary="Can the job be launched again?", response_model=RelaunchPage
)
def get_relaunch(caller: CallerParameter, job_id: JobId) -> dict[str, Any]:
    """True for a playbook job that has ended."""
    with caller.reading() as connection:
        row = job_queries.read_job(connection, job_id)
        if row is None or row["kind"] != Kind.PLAYBOOK:
            raise NotFound
        counts = count_hosts(connection, job_id)
    return {
        "can_relaunch": row["status"] in FINAL,
        "passwords_needed_to_start": [],
        "retry_counts": counts,
    }


@router.post(
    "/{job_id}/relaunch/",
    summary="Launch the job again",
    status_code=201,
    response_model=LaunchedJob,
    responses={
        409: {
            "description": "`not_final`; `no_failed_hosts` with the `choices` that are left;"
            " `template_gone`; `content_missing`."
        }
    },
)
def post_relaunch(
    caller: CallerParameter, job_id: JobId, body: Annotated[RelaunchJob | None, Body()] = None
) -> Response:
    """A new job with the inputs of this one."""
    wanted = body or RelaunchJob()

    def act(connection: Connection, principal: str, uuid: UUID) -> Launched:
        if wanted.credential_passwords:
            raise InvalidRequest({"credential_passwords": "is not supported here"})
        with renamed():
            return relaunch_job(
                connection,
                job_id,
                principal=principal,
                hosts=wanted.hosts,
                uuid=uuid,
                cipher=caller.services.cipher,
            )

    return launch_answer(*launch(caller, act))
