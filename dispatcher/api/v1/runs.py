"""``runs``: ours, under a name that the old service did not have. All that it was asked for in vain."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from dispatcher.api.v1.call import Call, Route
from dispatcher.api.v1.envelope import Answer, Refused
from dispatcher.api.v1.playbooks import run_of, word_of
from dispatcher.api.v1.run_body import RunBody, read_body
from dispatcher.api.v1.starting import start_run
from dispatcher.db import event_queries, run_list, run_summaries
from dispatcher.db.run_summaries import RunState
from dispatcher.domain.outcome import FACTS, Outcome

_COUNTER: Final = re.compile(r"[0-9]{1,18}")
_PAGE: Final = 50
_LARGEST_PAGE: Final = 1000
#: Bytes of output in one answer.
_OUTPUT_BYTES: Final = 2_000_000
_WORDS: Final = ("running", *sorted({facts.v1 for facts in FACTS.values()}))
#: Keys of a result that say why a task failed, best first.
_REASONS: Final = ("msg", "stderr", "stdout", "module_stderr", "exception")


def start(call: Call) -> Answer:
    """Run a playbook with whatever Ansible has options for. The header `Idempotency-Key` makes the
    same request again the same run."""
    return start_run(call, read_body(call))


def list_runs(call: Call) -> Answer:
    """Runs, newest first. `status` is a word of theirs, `before` the uuid of a run: older ones follow,
    `count` how many (50)."""
    unknown = sorted(set(call.query) - {"status", "before", "count"})
    if unknown:
        raise Refused("INVALID", "Supported parameters are status,before,count")
    count = call.query.get("count", str(_PAGE))
    if not _COUNTER.fullmatch(count) or not 1 <= int(count) <= _LARGEST_PAGE:
        raise Refused("INVALID", f"count must be 1 to {_LARGEST_PAGE}")
    with call.caller.reading() as connection:
        rows = run_list.read_page(
            connection,
            before=_before(call),
            outcomes=_outcomes(call.query.get("status")),
            count=int(count),
        )
    runs = [_shown(row) for row in rows]
    return Answer("OK", f"{len(runs)} run found", {"runs": runs})


def _before(call: Call) -> UUID | None:
    given = call.query.get("before")
    try:
        return None if given is None else UUID(given)
    except ValueError:
        raise Refused("INVALID", "before must be the uuid of a run") from None


def _outcomes(word: str | None) -> Collection[Outcome | None]:
    if word is None:
        return ()
    if word not in _WORDS:
        raise Refused("INVALID", f"status must be one of {','.join(_WORDS)}")
    return [outcome for outcome in (None, *FACTS) if word_of(outcome) == word]


def _shown(row: RowMapping) -> dict[str, Any]:
    outcome = row["outcome"]
    return {
        "play_uuid": str(row["uuid"]),
        "playbook": row["playbook"],
        "status": word_of(outcome and Outcome(outcome)),
        "state": row["status"],
        "outcome": outcome,
        "launched_by": row["launched_by"],
        **{
            name: row[name] and row[name].isoformat() for name in ("created", "started", "finished")
        },
        **{name: row[name] for name in ("ok", "failed", "skipped", "task")},
    }


def show(call: Call) -> Answer:
    """A run with its options, why it ended so, and what the last task that failed said."""
    with call.caller.reading() as connection:
        run = _run(connection, call)
        row = run_list.read_run(connection, run.job_id)
        failed = [max(run.failures.values())] if run.failures else []
        failures = run_summaries.read_events(connection, run, failed)
    assert row is not None
    options = ("limit_pattern", "tags", "skip_tags", "check_mode", "forks", "verbosity")
    names = ("limit", "tags", "skip_tags", "check", "forks", "verbosity")
    data = {
        **_shown(row),
        **{name: row[column] for name, column in zip(names, options, strict=True)},
        "explanation": row["explanation"],
        "failure": _failure(failures[0]) if failures else None,
    }
    return Answer("OK", data["status"], data)


def _failure(event: RowMapping) -> dict[str, Any]:
    result = event["event_data"].get("res")
    found = (result.get(name) for name in _REASONS) if isinstance(result, Mapping) else ()
    said = next((each for each in found if each), "")
    return {
        "host": event["host_name"],
        "task": event["task"],
        "msg": said if isinstance(said, str) else str(said),
        "event": f"{event['counter']}-{event['uuid']}",
    }


def show_output(call: Call) -> Answer:
    """What a run has printed, as text; `since` is a counter: only what came after it. The header
    `X-Last-Counter` has the last one that is in the answer, which is not longer than 2 MB."""
    since = call.query.get("since", "0")
    if not _COUNTER.fullmatch(since):
        raise Refused("INVALID", "since must be the counter of an event")
    last, size, lines = int(since), 0, []
    with call.caller.reading() as connection:
        run = _run(connection, call)
        while size < _OUTPUT_BYTES:
            batch = event_queries.read_output(
                connection, run.job_day, run.job_id, after=last, upto=run.stored
            )
            if not batch:
                break
            for event in batch:
                # an event's text has no line end of its own; its numbers say whether there was one
                ended = "\n" if event["end_line"] > event["start_line"] else ""
                lines.append(event["stdout"] + ended)
                size += len(lines[-1])
            last = batch[-1]["counter"]
    headers = {"X-Last-Counter": str(last)}
    return Answer(page=("".join(lines), "text/plain"), headers=headers)


def _run(connection: Connection, call: Call) -> RunState:
    run = run_of(connection, call)
    if run is None:
        raise Refused("NOTFOUND", f"Playbook with UUID {call.parts['uuid']} not found")
    return run


ROUTES: Final = (
    Route("GET", "/api/v1/runs", list_runs, "The runs", ("status", "before", "count")),
    Route(
        "POST",
        "/api/v1/runs",
        start,
        "Run a playbook with all options",
        body=RunBody.model_json_schema(),
        success="STARTED",
    ),
    Route("GET", "/api/v1/runs/{uuid}", show, "A run in full"),
    Route("GET", "/api/v1/runs/{uuid}/stdout", show_output, "The output of a run", ("since",)),
)
