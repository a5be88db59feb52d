"""``jobs/<uuid>/events``: what happened in a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dispatcher.api.v1 import old_runs
from dispatcher.api.v1.call import Call, Route
from dispatcher.api.v1.envelope import Answer, Refused
from dispatcher.api.v1.playbooks import run_of
from dispatcher.api.v1.raw_events import raw_event
from dispatcher.db import run_events, run_summaries
from dispatcher.domain.text import has_unstorable

_KEY: Final = re.compile(r"([0-9]{1,18})-(.{1,200})")
_COUNTER: Final = re.compile(r"[0-9]{1,18}")
_UNKNOWN: Final = "playbook uuid given does not exist"


def list_events(call: Call) -> Answer:
    """Events in order; with filters only those in which every name has this text as its value."""
    filters = dict(call.query)
    since = filters.pop("since", "0")
    if not _COUNTER.fullmatch(since):
        raise Refused("INVALID", "since must be the counter of an event")
    with call.caller.reading() as connection:
        run = run_of(connection, call)
        if run is None:
            return _listed(old_runs.list_events(_old(call), filters, int(since)))
        headers = {"ETag": f'"{run.stored}"'}
        if call.headers.get("if-none-match") == headers["ETag"]:
            return Answer(code=304, headers=headers)
        rows: Sequence[Any] = ()
        if not any(has_unstorable(name + value) for name, value in filters.items()):
            rows = run_events.read_list(
                connection, run, filters, after=int(since), ident=call.parts["uuid"]
            )
    events = {
        f"{counter}-{uuid}": _summary(event, host, task, role)
        for counter, uuid, event, host, task, role in rows
    }
    return _listed(events, headers)


def _listed(events: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Answer:
    data = {"events": events, "total_events": len(events)}
    return Answer("OK", "", data, headers=headers or {})


def _old(call: Call) -> Path:
    """The directory of a run of the old service.

    Raises:
        Refused: there is none of this name either.
    """
    directory = old_runs.find(call.root, call.parts["uuid"])
    if directory is None:
        raise Refused("NOTFOUND", _UNKNOWN)
    return directory


def _summary(event: str, host: str, task: str, role: str) -> dict[str, str]:
    summary = {"event": event}
    if host:
        summary["host"] = host
    if task:
        summary["task"] = task
    if role:
        summary["role"] = role
    return summary


def show_event(call: Call) -> Answer:
    """One event, whole, as ansible-runner gave it."""
    found = _KEY.fullmatch(call.parts["event"])
    with call.caller.reading() as connection:
        run = run_of(connection, call)
        if run is None:
            return _show_old(call)
        rows = run_summaries.read_events(connection, run, [int(found[1])] if found else [])
    if found is None or not rows or rows[0]["uuid"] != found[2]:
        raise Refused("NOTFOUND", "Event not found")
    return Answer("OK", "", raw_event(rows[0], call.parts["uuid"]))


def _show_old(call: Call) -> Answer:
    event = old_runs.read_event(_old(call), call.parts["event"])
    if event is None:
        raise Refused("NOTFOUND", "Event not found")
    return Answer("OK", "", event)


ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/jobs/{uuid}/events",
        list_events,
        "The events of a run",
        ("since", "any key of an event, its event_data or its result"),
    ),
    Route("GET", "/api/v1/jobs/{uuid}/events/{event}", show_event, "One event, whole"),
)
