"""The form of an event in answers, and the dialect's words for kinds of events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, Field

from dispatcher.api.v2.resource import Row, url_of

#: Event → (level in the run: playbook, play, task, host; words). The dialect's table.
EVENTS: Final[Mapping[str, tuple[int, str]]] = {
    "runner_on_failed": (3, "Host Failed"),
    "runner_on_start": (3, "Host Started"),
    "runner_on_ok": (3, "Host OK"),
    "runner_on_error": (3, "Host Failure"),
    "runner_on_skipped": (3, "Host Skipped"),
    "runner_on_unreachable": (3, "Host Unreachable"),
    "runner_on_no_hosts": (3, "No Hosts Remaining"),
    "runner_on_async_poll": (3, "Host Polling"),
    "runner_on_async_ok": (3, "Host Async OK"),
    "runner_on_async_failed": (3, "Host Async Failure"),
    "runner_item_on_ok": (3, "Item OK"),
    "runner_item_on_failed": (3, "Item Failed"),
    "runner_item_on_skipped": (3, "Item Skipped"),
    "runner_retry": (3, "Host Retry"),
    "runner_on_file_diff": (3, "File Difference"),
    "playbook_on_start": (0, "Playbook Started"),
    "playbook_on_notify": (2, "Running Handlers"),
    "playbook_on_include": (2, "Including File"),
    "playbook_on_no_hosts_matched": (2, "No Hosts Matched"),
    "playbook_on_no_hosts_remaining": (2, "No Hosts Remaining"),
    "playbook_on_task_start": (2, "Task Started"),
    "playbook_on_handler_task_start": (2, "Running Handler"),
    "playbook_on_vars_prompt": (1, "Variables Prompted"),
    "playbook_on_play_start": (1, "Play Started"),
    "playbook_on_stats": (1, "Playbook Complete"),
    "debug": (0, "Debug"),
    "verbose": (0, "Verbose"),
    "deprecated": (0, "Deprecated"),
    "warning": (0, "Warning"),
    "system_warning": (0, "System Warning"),
    "error": (0, "Error"),
}


class StreamedEvent(BaseModel):
    """An event as the stream shows it: all but ``event_data``, which can be large."""

    id: int = Field(description="Same as `counter`.")
    type: str = Field(description="Always `job_event`.")
    url: str = Field(description="Path of this object.")
    job: int = Field(description="Number of the job.")
    counter: int = Field(description="Number of the event in its job, from 1, without gaps.")
    uuid: str = Field(description="Id of the event, play or task, as ansible-runner made it.")
    parent_uuid: str = Field(description="Id of what it belongs to; empty at the top.")
    event: str = Field(description="Kind of event, such as `runner_on_ok`.")
    event_display: str = Field(description="The kind in words.")
    event_level: int = Field(description="0: playbook, 1: play, 2: task, 3: host.")
    created: datetime = Field(description="When it happened (the node's clock).")
    failed: bool = Field(description="Whether it reports a failure.")
    changed: bool = Field(description="Whether it reports a change.")
    host: int | None = Field(description="Always null: hosts have no objects of their own.")
    host_name: str = Field(description="Name of the host; empty when it is about none.")
    play: str = Field(description="Name of the play.")
    task: str = Field(description="Name of the task.")
    role: str = Field(description="Name of the role.")
    stdout: str = Field(description="Its output, without the line end after it; with colors.")
    start_line: int = Field(description="Line of the whole output at which it begins, from 0.")
    end_line: int = Field(description="Line at which the next event begins.")
    verbosity: int = Field(description="Verbosity from which it is shown.")
    sanitized: bool = Field(description="Whether characters had to be replaced to store it.")
    truncated: bool = Field(description="Whether `event_data` was shortened to be stored.")


class JobEvent(StreamedEvent):
    """An event with everything there is to say about it."""

    modified: datetime = Field(description="Same as `created`.")
    related: dict[str, str] = Field(description="Paths of what belongs to it, by name.")
    summary_fields: dict[str, Any] = Field(description="Empty.")
    event_data: dict[str, Any] = Field(description="What Ansible said, as a mapping.")


_SAME: Final = (
    "counter",
    "uuid",
    "parent_uuid",
    "event",
    "created",
    "failed",
    "changed",
    "host_name",
    "play",
    "task",
    "role",
    "stdout",
    "start_line",
    "end_line",
    "verbosity",
    "sanitized",
    "truncated",
)


def render_streamed(row: Row) -> dict[str, Any]:
    """An event as the stream shows it."""
    level, words = EVENTS.get(row["event"], (0, row["event"]))
    job = url_of("jobs", row["job_id"])
    return {
        **{name: row[name] for name in _SAME},
        "id": row["counter"],
        "type": "job_event",
        "url": f"{job}job_events/{row['counter']}/",
        "job": row["job_id"],
        "event_display": words,
        "event_level": level,
        "host": None,
    }


def render_event(row: Row) -> dict[str, Any]:
    """An event with everything there is to say about it."""
    return {
        **render_streamed(row),
        "modified": row["created"],
        "related": {"job": url_of("jobs", row["job_id"])},
        "summary_fields": {},
        "event_data": row["event_data"],
    }
