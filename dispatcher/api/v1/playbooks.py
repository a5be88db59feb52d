"""``playbooks``: which there are, a run of one, its status, its cancel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from dispatcher import logs
from dispatcher.actions.cancel import cancel_job
from dispatcher.api.v1 import old_runs
from dispatcher.api.v1.call import Call, Route
from dispatcher.api.v1.envelope import Answer, Refused
from dispatcher.api.v1.raw_events import raw_event
from dispatcher.api.v1.starting import connection_of, start_run
from dispatcher.db import run_summaries
from dispatcher.db.run_summaries import RunState
from dispatcher.domain.outcome import FACTS, Outcome
from dispatcher.domain.runner_inventory import RunnerInventory, with_connection
from dispatcher.errors import NotCancelable, NotFound

log = logs.get(__name__)

_TAGS: Final = re.compile(r"[a-zA-Z0-9]+(,+[a-zA-Z0-9]+)*")
_FILTERS: Final = ("limit", "check")
#: Task metadata before the first task.
_NO_TASK: Final = {"created": "", "play_pattern": "", "task_path": "", "task_action": ""}


def list_playbooks(call: Call) -> Answer:
    """Names of the playbooks in `project/*.yml`."""
    names = call.root.playbooks()
    return Answer("OK", f"{len(names)} playbook found", {"playbooks": names})


def start(call: Call) -> Answer:
    """Run a playbook; the body is a JSON object of extra variables."""
    return _start(call, ())


def start_with_tags(call: Call) -> Answer:
    """The same, only tasks with these tags."""
    tags = call.parts["tags"]
    if not _TAGS.fullmatch(tags):
        raise Refused("INVALID", "Invalid tag syntax")
    return _start(call, tuple(tag for tag in tags.split(",") if tag))


def _start(call: Call, tags: tuple[str, ...]) -> Answer:
    variables = call.json()
    if any(name not in _FILTERS for name in call.query):
        raise Refused("INVALID", f"Bad request, supported filters are: {','.join(_FILTERS)}")
    inventory = call.root.inventory()
    limit = call.query.get("limit")
    if limit is not None:
        known = set(RunnerInventory(inventory).hosts())
        if any(host not in known for host in limit.split(",")):
            raise Refused("INVALID", "Host(s) provided not in Ansible inventory")
    playbook = call.parts["playbook"]
    if not call.root.has_playbook(playbook):
        raise Refused("NOTFOUND", "playbook file not found")
    if not isinstance(variables, Mapping):
        raise Refused("INVALID", "the extra variables must be a JSON object")
    request = {
        "playbook": playbook,
        "inventory": with_connection(inventory, connection_of(call)),
        "limit": limit or "",
        "extra_vars": dict(variables),
        "tags": tags,
        "check_mode": call.query.get("check", "").lower() == "true",
    }
    return start_run(call, request)


def run_of(connection: Connection, call: Call) -> RunState | None:
    """The run that the path names."""
    try:
        uuid = UUID(call.parts["uuid"])
    except ValueError:
        return None
    # one spelling only, as the old service had it
    return run_summaries.read(connection, uuid) if str(uuid) == call.parts["uuid"] else None


def show(call: Call) -> Answer:
    """How far a run is: `msg` is starting, running, successful, failed, canceled or timeout."""
    with call.caller.reading() as connection:
        run = run_of(connection, call)
        if run is None:
            return _show_old(call)
        failures = run_summaries.read_events(connection, run, run.failures.values())
    data = {
        "task": run.task,
        "task_metadata": run.task_metadata or _NO_TASK,
        "role": "",
        "last_task_num": run.stored or None,
        "skipped": run.skipped,
        "failed": run.failed,
        "ok": run.ok,
        "failures": {row["host_name"]: raw_event(row, call.parts["uuid"]) for row in failures},
    }
    return Answer("OK", word_of(run.outcome), data)


def _show_old(call: Call) -> Answer:
    """A run of the old service: how it ended is all that it left."""
    uuid = call.parts["uuid"]
    directory = old_runs.find(call.root, uuid)
    if directory is None:
        raise Refused("NOTFOUND", f"Playbook with UUID {uuid} not found")
    return Answer("OK", old_runs.word_of(directory))


def word_of(outcome: Outcome | None) -> str:
    """The old service's word; clients read any other as a failure, so waiting is running."""
    return "running" if outcome is None else FACTS[outcome].v1


def cancel(call: Call) -> Answer:
    """Cancel a run that has not ended."""
    uuid = call.parts["uuid"]
    with call.caller.reading() as connection:
        run = run_of(connection, call)
    try:
        if run is None:
            raise NotFound
        with call.caller.transaction() as connection:
            result = cancel_job(connection, run.job_id)
    except (NotFound, NotCancelable):
        raise Refused("NOT ACTIVE", f"playbook with uuid {uuid} is not active") from None
    log.info("job_cancel_requested", job_id=run.job_id, status=str(result.status))
    call.caller.services.publisher.publish(result.owed)
    return Answer("OK", "Cancel request issued")


ROUTES: Final = (
    Route("GET", "/api/v1/playbooks", list_playbooks, "The playbooks that can be run"),
    Route(
        "POST",
        "/api/v1/playbooks/{playbook}",
        start,
        "Run a playbook",
        _FILTERS,
        body={"type": "object"},
        success="STARTED",
    ),
    Route(
        "POST",
        "/api/v1/playbooks/{playbook}/tags/{tags}",
        start_with_tags,
        "Run a playbook's tasks with these tags",
        _FILTERS,
        body={"type": "object"},
        success="STARTED",
    ),
    Route("GET", "/api/v1/playbooks/{uuid}", show, "The status of a run"),
    Route("DELETE", "/api/v1/playbooks/{uuid}", cancel, "Cancel a run"),
)
