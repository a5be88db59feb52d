"""``jobs/N/job_events/`` and ``jobs/N/job_host_summaries/``: what happened, to whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from dispatcher.api.auth import CallerParameter
from dispatcher.api.v2.event_models import JobEvent, render_event
from dispatcher.api.v2.jobs import JobId
from dispatcher.api.v2.resource import (
    ListQueryParameter,
    Page,
    Row,
    filters_of,
    read_list,
    url_of,
)
from dispatcher.db import event_queries, job_queries
from dispatcher.db.job_state import JobState, read_state
from dispatcher.db.listing import Condition, Listing
from dispatcher.db.tables import job_event
from dispatcher.errors import NotFound

router = APIRouter(prefix="/api/v2/jobs", tags=["jobs"])


def _existing(connection: Connection, job_id: int) -> JobState:
    state = read_state(connection, job_id)
    if state is None:
        raise NotFound
    return state


@router.get(
    "/{job_id}/job_events/",
    summary="List a job's events",
    response_model=Page[JobEvent],
    openapi_extra=filters_of(event_queries.event_listing(date.min, 0)),
)
def list_events(
    caller: CallerParameter, query: ListQueryParameter, job_id: JobId
) -> dict[str, Any]:
    """Events in the order of their counters, which is the order of their lines too.

    `counter__gt=N` or `cursor` read on from an event; `start_line__gte=N` from a line.
    """
    with caller.reading() as connection:
        state = _existing(connection, job_id)
        listing = event_queries.event_listing(state.job_day, job_id)

        def narrow(conditions: Sequence[Condition]) -> Listing:
            return _from_line(connection, listing, state, conditions)

        return read_list(
            connection,
            query,
            listing,
            lambda rows: [render_event(row) for row in rows],
            default_order="counter",
            total=lambda: state.stored,
            narrow=narrow,
        )


def _from_line(
    connection: Connection, listing: Listing, state: JobState, conditions: Sequence[Condition]
) -> Listing:
    """Leave out the events that a lower bound on lines excludes: found by key, not by reading."""
    bounds = [
        int(c.value)
        for c in conditions
        if c.field == "start_line"
        and c.lookup in ("gt", "gte", "exact")
        and c.value is not None
        and not (c.negated or c.alternative)
    ]
    if not bounds or max(bounds) <= 0:
        return listing
    after = event_queries.counter_before_line(
        connection,
        state.job_day,
        state.id,
        line=max(bounds) - 1,
        last_counter=state.stored,
    )
    return replace(listing, source=listing.source.where(job_event.c.counter > after))


@router.get(
    "/{job_id}/job_events/{counter}/", summary="One event of a job", response_model=JobEvent
)
def get_event(
    caller: CallerParameter,
    job_id: JobId,
    counter: Annotated[int, Path(description="Number of the event in its job.", ge=1, lt=2**63)],
) -> dict[str, Any]:
    """An event with its `event_data`."""
    with caller.reading() as connection:
        state = _existing(connection, job_id)
        row = event_queries.read_event(connection, state.job_day, job_id, counter)
    if row is None:
        raise NotFound
    return render_event(row)


class JobHostSummary(BaseModel):
    """What a run did to one host."""

    id: int = Field(description="Number of the summary.")
    type: str = Field(description="Always `job_host_summary`.")
    url: str = Field(description="Path of the list that shows it.")
    related: dict[str, str] = Field(description="Paths of what belongs to it, by name.")
    summary_fields: dict[str, Any] = Field(description="Empty.")
    job: int = Field(description="Number of the job.")
    host: int | None = Field(description="Always null: hosts have no objects of their own.")
    host_name: str = Field(description="Name of the host.")
    ok: int = Field(description="Tasks that ended well, changed ones included.")
    changed: int = Field(description="Tasks that changed something.")
    failures: int = Field(description="Tasks that failed.")
    dark: int = Field(description="Times that it was unreachable.")
    skipped: int = Field(description="Tasks that were skipped.")
    rescued: int = Field(description="Failed tasks that a rescue section mended.")
    ignored: int = Field(description="Failed tasks whose errors were ignored.")
    processed: int = Field(description="Always 1.")
    failed: bool = Field(description="Whether it failed or was unreachable.")


def _render_summary(row: Row) -> dict[str, Any]:
    job = url_of("jobs", row["job_id"])
    counts = ("ok", "changed", "failures", "dark", "skipped", "rescued", "ignored", "failed")
    return {
        **{name: row[name] for name in ("id", "host_name", *counts)},
        "type": "job_host_summary",
        "url": f"{job}job_host_summaries/?id={row['id']}",
        "related": {"job": job},
        "summary_fields": {},
        "job": row["job_id"],
        "host": None,
        "processed": 1,
    }


@router.get(
    "/{job_id}/job_host_summaries/",
    summary="List a job's host summaries",
    response_model=Page[JobHostSummary],
    openapi_extra=filters_of(job_queries.host_summary_listing(0)),
)
def list_host_summaries(
    caller: CallerParameter, query: ListQueryParameter, job_id: JobId
) -> dict[str, Any]:
    """One for each host that the run reached, by name; complete when the job has ended."""
    with caller.reading() as connection:
        _existing(connection, job_id)
        return read_list(
            connection,
            query,
            job_queries.host_summary_listing(job_id),
            lambda rows: [_render_summary(row) for row in rows],
            default_order="host_name",
        )
