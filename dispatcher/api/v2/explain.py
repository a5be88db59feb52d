"""``jobs/N/explain/``: why a job waits and until when, where it is, or what became of it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from dispatcher.actions.explain_job import explain_case, read_case
from dispatcher.api.auth import CallerParameter
from dispatcher.api.v2.jobs import JobId

router = APIRouter(prefix="/api/v2/jobs", tags=["jobs"])


class Blocker(BaseModel):
    """One thing that keeps a job from starting now."""

    code: str = Field(description="A word for programs (docs/scheduling.md 6).")
    data: dict[str, Any] = Field(description="The numbers and names that go with the code.")
    words: str = Field(description="The same as a sentence.")


class Explanation(BaseModel):
    """Where a job stands."""

    id: int = Field(description="Number of the job.")
    status: str = Field(description="Its status when this was computed.")
    words: str = Field(description="The most important thing to know, as a sentence.")
    blockers: list[Blocker] = Field(
        description="Pending: everything that keeps it from starting, in the order in which the"
        " planner asks. Empty: the next pass starts it."
    )
    position: int | None = Field(
        description="Pending: its place among those that stay pending, from 1; null while no"
        " manager counts it."
    )
    expected_start: datetime | None = Field(
        description="Pending: when it starts if jobs run as long as lately; null when it waits for"
        " something without a known end, or is far behind."
    )
    expected_end: datetime | None = Field(
        description="Running: when it ends if it runs as long as jobs like it did lately."
    )


@router.get("/{job_id}/explain/", summary="Explain the job", response_model=Explanation)
def get_explanation(caller: CallerParameter, job_id: JobId) -> dict[str, Any]:
    """Every blocker, the position and the expected start, computed from one snapshot."""
    settings = caller.services.settings
    with caller.snapshot() as connection:
        case = read_case(
            connection,
            job_id,
            reserve_after=settings.reserve_after,
            lock_cooldown=settings.lock_cooldown,
        )
    return asdict(explain_case(case))
