"""``jobs/N/stream/``: events and status as server-sent events, from any event on, to the end.

Rules (docs/protocols.md 5.5): subscribe, then read; the status is read before the events; the
stream ends only when that status was final and the read after it found nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter

from dispatcher import clock
from dispatcher.api.auth import Caller, CallerParameter
from dispatcher.api.errors import NotAuthenticated
from dispatcher.api.followers import POLL_SECONDS
from dispatcher.api.v2.event_models import StreamedEvent, render_streamed
from dispatcher.api.v2.filters import read_integer
from dispatcher.api.v2.jobs import JobId, explanation_of, state_of
from dispatcher.api.v2.resource import Row
from dispatcher.db import event_queries
from dispatcher.db.job_state import JobState, read_state
from dispatcher.domain.outcome import FACTS
from dispatcher.errors import InvalidRequest, Unavailable
from dispatcher.metrics import STREAMS

router = APIRouter(prefix="/api/v2/jobs", tags=["jobs"])

#: Seconds of silence after which a comment shows that the connection lives.
KEEP_ALIVE_SECONDS: Final = 10.0
#: Milliseconds after which a client of the browser's kind connects again.
_RETRY_MILLISECONDS: Final = 1000

_EVENT: Final = TypeAdapter(StreamedEvent)


def _message(event: str, body: str, *, id: int | None = None) -> str:
    # JSON has no line ends of its own, so one data line holds it
    head = "" if id is None else f"id: {id}\n"
    return f"{head}event: {event}\ndata: {body}\n\n"


def _status(state: JobState) -> dict[str, Any]:
    return {
        "id": state.id,
        "status": str(state.status),
        "outcome": None if state.outcome is None else str(state.outcome),
        "exit_code": None if state.outcome is None else FACTS[state.outcome].exit_code,
        "job_explanation": explanation_of(state.status, state.pending_reason, state.explanation),
        "cancel_requested": state.cancel_requested,
        "events_stored": state.stored,
        "events_complete": state.events_complete,
        "retried_by": state.retried_by,
    }


def _messages(rows: Sequence[Row]) -> str:
    return "".join(
        _message(
            "job_event",
            _EVENT.dump_json(_EVENT.validate_python(render_streamed(row))).decode(),
            id=row["counter"],
        )
        for row in rows
    )


@dataclass(frozen=True)
class _Look:
    """What one look at the database found.

    Attributes:
        text: messages to send.
        after: counter of the newest event that was sent with them, or before.
        said: what the last status message said.
        more: there may be more right now.
        end: nothing will ever follow.
    """

    text: str
    after: int
    said: Mapping[str, Any] | None
    more: bool
    end: bool


def _look(caller: Caller, job_id: int, before: _Look) -> _Look:
    """The status first, then the events; an end only when a final status was read before none."""
    with caller.reading() as connection:
        state = read_state(connection, job_id)
        if state is None:
            return replace(before, text="", more=False, end=True)  # past its retention
        rows = event_queries.read_following(connection, state.job_day, job_id, after=before.after)
    after = rows[-1]["counter"] if rows else before.after
    if state.final and rows:
        # the status is said when everything before it is
        return _Look(_messages(rows), after, before.said, more=True, end=False)
    status = _status(state)
    # how many events are stored is news only together with something else
    said = {name: value for name, value in status.items() if name != "events_stored"}
    text = _message("status", json.dumps(status)) if said != before.said else ""
    text += _messages(rows)
    if state.final:
        text += _message("end", json.dumps(status))
    return _Look(text, after, said, more=bool(rows), end=state.final)


async def _stream(caller: Caller, job_id: int, after: int) -> AsyncIterator[str]:
    """The stream's text; ends with the job, or silently when the server stops."""
    followers = caller.services.followers
    STREAMS.inc()
    look, spoke = _Look("", after, None, more=True, end=False), clock.monotonic()
    try:
        async with followers.follow(job_id) as signal:
            yield f"retry: {_RETRY_MILLISECONDS}\n\n"
            while not (look.end or signal.stopping):
                wait = KEEP_ALIVE_SECONDS
                try:
                    look = await followers.read(partial(_look, caller, job_id, look))
                except NotAuthenticated:
                    return  # revoked meanwhile
                except Unavailable:
                    look, wait = replace(look, text="", more=False), POLL_SECONDS
                if look.text:
                    spoke = clock.monotonic()
                    yield look.text
                if look.more or look.end:
                    continue
                woken = await signal.wait(wait)
                if not woken and clock.monotonic() - spoke >= KEEP_ALIVE_SECONDS:
                    spoke = clock.monotonic()
                    yield ": still here\n\n"
    finally:
        STREAMS.dec()


@router.get(
    "/{job_id}/stream/",
    summary="Follow a job live",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events. `job_event`: one event (`id` is its counter) without"
            " `event_data`. `status`: the status, or why the job waits, has changed, or is said for the first time. `end`:"
            " the job has ended and every event was sent; where `retried_by` is not null, another job"
            " repeats it. Comments keep the connection alive.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def get_stream(
    caller: CallerParameter,
    job_id: JobId,
    last_event_id: Annotated[
        str | None,
        Header(description="Counter of the last event that was received; resumes after it."),
    ] = None,
    after: Annotated[
        int, Query(ge=0, lt=2**62, description="The same for clients that cannot set headers.")
    ] = 0,
) -> StreamingResponse:
    """Every event once, in order, then `end`. Joining late or again misses and repeats nothing."""
    if last_event_id:
        try:
            after = max(0, read_integer(last_event_id))
        except ValueError as error:
            raise InvalidRequest({"Last-Event-ID": str(error)}) from None
    # once before the answer begins, so that it can still be 404 or 503
    await caller.services.followers.read(partial(state_of, caller, job_id))
    return StreamingResponse(
        _stream(caller, job_id, after),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
