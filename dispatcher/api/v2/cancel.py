"""``jobs/N/cancel/``."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from dispatcher import logs
from dispatcher.actions.cancel import cancel_job
from dispatcher.api.auth import Caller, CallerParameter
from dispatcher.api.v2.jobs import JobId, state_of
from dispatcher.errors import Unavailable

log = logs.get(__name__)

router = APIRouter(prefix="/api/v2/jobs", tags=["jobs"])


class CanCancel(BaseModel):
    """Whether a job can be canceled."""

    can_cancel: bool = Field(description="False when it has ended.")


class CancelAccepted(BaseModel):
    """A cancel that was accepted."""

    id: int = Field(description="Number of the job.")
    status: str = Field(
        description="`canceled` if it was not running; `running` while its node stops it."
    )


@router.get("/{job_id}/cancel/", summary="Can the job be canceled?", response_model=CanCancel)
def get_cancel(caller: CallerParameter, job_id: JobId) -> dict[str, object]:
    """True until the job has ended."""
    return {"can_cancel": not state_of(caller, job_id).final}


@router.post(
    "/{job_id}/cancel/",
    summary="Cancel the job",
    status_code=202,
    response_model=CancelAccepted,
    responses={405: {"description": "The job has ended."}},
)
def post_cancel(caller: CallerParameter, job_id: JobId) -> dict[str, object]:
    """A pending or waiting job is canceled at once, a running one within seconds. Asking again is
    harmless."""
    return request_cancel(caller, job_id)


def request_cancel(caller: Caller, job_id: int) -> dict[str, object]:
    """Ask for a job's cancel, of whatever kind; what is answered.

    Raises:
        NotFound, NotCancelable: see :func:`cancel_job`.
    """
    try:
        with caller.transaction() as connection:
            result = cancel_job(connection, job_id)
    except Unavailable:
        # the commit's outcome may be unknown; a repeat of one that took effect would be 405
        state = state_of(caller, job_id)
        if not state.cancel_requested:
            raise
        log.info("job_cancel_requested", job_id=job_id, status=str(state.status))
        return {"id": job_id, "status": str(state.status)}
    where: dict[str, str] = {}
    for dispatch in result.owed.cancels:  # at most one: a playbook that runs
        where = {"dispatch_id": str(dispatch.dispatch_id), "node": dispatch.node}
    log.info("job_cancel_requested", job_id=job_id, status=str(result.status), **where)
    caller.services.publisher.publish(result.owed)
    return {"id": job_id, "status": str(result.status)}
