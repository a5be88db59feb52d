"""ansible-runner's events become rows: cleaned, masked, capped, numbered.

Counter and line numbers are assigned here, so that they have no gap whatever ansible-runner
delivered. ``stdout`` is never cut: joined, each with a line end, the events with output give the
run's output.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dispatcher import clock
from workers.masking import Masker
from workers.spool import SpooledEvent

#: Most characters of ``event_data`` as JSON; beyond, results are left out (``truncated``).
MAX_EVENT_DATA = 700_000
#: What is kept of a result that is too large: values up to this many characters of JSON.
_SMALL = 1_000
_REPLACEMENT = "\ufffd"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_INFINITE = float("inf")
#: As in AWX: these events are failures, unless the task ignores errors.
FAILED_EVENTS = frozenset(
    {"runner_on_failed", "runner_on_error", "runner_on_unreachable", "runner_on_async_failed"}
    | {"runner_item_on_failed", "error"}
)
_MAX_VERBOSITY = 10


@dataclass(frozen=True)
class CleanEvent:
    """An event ready for the spool, and its data as an object, before any was left out."""

    row: SpooledEvent
    data: Mapping[str, Any]


class EventStream:
    """Makes rows of the events of one run, in the order in which they come."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self.total = 0
        self._line = 0

    def convert(self, raw: Mapping[str, Any]) -> CleanEvent:
        """The row for an event of ansible-runner.

        Args:
            raw: ``event``, ``uuid``, ``stdout``, ``start_line``, ``end_line``, ``created``,
                ``event_data`` …, any of which may be missing.
        """
        name = _word(raw.get("event")) or "verbose"
        data = raw.get("event_data")
        clean, text, sanitized = self._cleaned(data if isinstance(data, dict) else {})
        text, truncated = _capped(name, clean, text)
        stdout, lines, dirty = self._output(raw)
        row = SpooledEvent(
            counter=self.total + 1,
            uuid=_word(raw.get("uuid")) or str(uuid.uuid4()),
            parent_uuid=_word(raw.get("parent_uuid")),
            event=name,
            created=_time(raw.get("created")),
            stdout=stdout,
            start_line=self._line,
            end_line=self._line + lines,
            verbosity=_verbosity(raw.get("verbosity")),
            failed=_failed(name, clean),
            changed=_changed(name, clean),
            host_name=_word(clean.get("host")),
            play=_word(clean.get("play")),
            task=_word(clean.get("task")),
            role=_word(clean.get("role")),
            sanitized=sanitized or dirty,
            truncated=truncated,
            event_data=text,
        )
        # only now: an event that could not be converted leaves no gap
        self.total, self._line = row.counter, row.end_line
        return CleanEvent(row, clean)

    def note(self, name: str, text: str) -> CleanEvent:
        """An event of our own, with a line of output: why a run was stopped or could not start."""
        return self.convert({"event": name, "stdout": text, "start_line": 0, "end_line": 1})

    def _cleaned(self, data: dict[str, Any]) -> tuple[dict[str, Any], str, bool]:
        """Data that PostgreSQL takes, without secrets: object, JSON text, whether it was mended."""
        try:
            text = json.dumps(data, ensure_ascii=False, allow_nan=False)
            # dumps leaves surrogates as they are: encoding finds them faster than a pattern does
            text.encode()
            if "\\u0000" not in text and not self._masker.found_in(text):
                return data, text, False
        except (ValueError, TypeError):
            pass
        scrubber = _Scrubber(self._masker)
        clean = scrubber.scrub(data)
        return clean, _dumped(clean), scrubber.mended

    def _output(self, raw: Mapping[str, Any]) -> tuple[str, int, bool]:
        """Output, the number of lines it makes, and whether it was mended.

        ansible-runner strips all line ends from an event's output and counts them; all but the last
        are put back here. An unfinished line counts as one: what follows begins a new one.
        """
        stdout = raw.get("stdout")
        if not isinstance(stdout, str):
            stdout = ""
        ends = _count(raw.get("end_line")) - _count(raw.get("start_line"))
        missing = ends - stdout.count("\n")
        if not stdout and missing <= 0:
            return "", 0, False
        stdout += "\r\n" * (missing - 1)
        dirty = _UNSTORABLE.search(stdout) is not None
        if dirty:
            stdout = _UNSTORABLE.sub(_REPLACEMENT, stdout)
        stdout = self._masker.text(stdout)
        return stdout, stdout.count("\n") + 1, dirty


class _Scrubber:
    """Walks event data and mends what cannot be stored; notes whether anything was mended."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self.mended = False

    def scrub(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(str(key)): self.scrub(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.scrub(each) for each in value]
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, float) and (value != value or value in (_INFINITE, -_INFINITE)):
            self.mended = True
            return str(value)
        if isinstance(value, int | float):
            return self._masker.number(value)
        self.mended = True
        return self._text(str(value))

    def _text(self, text: str) -> str:
        if _UNSTORABLE.search(text):
            self.mended = True
            text = _UNSTORABLE.sub(_REPLACEMENT, text)
        return self._masker.text(text)


def _capped(name: str, data: Mapping[str, Any], text: str) -> tuple[str, bool]:
    """The JSON text within the cap. The recap stays whole, because every host is in it."""
    if data.get("res") == {} and name.startswith("runner_"):
        return _dumped(
            {**data, "res": {"_truncated": "larger than ansible-runner passes on"}}
        ), True
    if len(text) <= MAX_EVENT_DATA or name == "playbook_on_stats":
        return text, False
    capped = {key: _small(value, 0 if key == "res" else 10 * _SMALL) for key, value in data.items()}
    return _dumped(capped), True


def _small(value: Any, room: int) -> Any:
    """The value, or what is left of it in the room; ``_truncated`` says how many characters it had."""
    size = len(_dumped(value))
    if size <= room:
        return value
    kept: dict[str, Any] = {}
    if isinstance(value, Mapping):
        budget = MAX_EVENT_DATA // 4
        for key, each in value.items():
            cost = len(key) + len(_dumped(each))
            if cost <= _SMALL and cost <= budget:
                kept[key] = each
                budget -= cost
    return {**kept, "_truncated": size}


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _failed(name: str, data: Mapping[str, Any]) -> bool:
    if name == "playbook_on_stats":
        return _any_count(data.get("failures")) or _any_count(data.get("dark"))
    return name in FAILED_EVENTS and not data.get("ignore_errors")


def _changed(name: str, data: Mapping[str, Any]) -> bool:
    if name == "playbook_on_stats":
        return _any_count(data.get("changed"))
    result = data.get("res")
    return isinstance(result, Mapping) and bool(result.get("changed"))


def _any_count(counts: object) -> bool:
    return isinstance(counts, Mapping) and any(counts.values())


def storable(text: str) -> str:
    """The text as PostgreSQL takes it: without NUL and unpaired surrogates."""
    return _UNSTORABLE.sub(_REPLACEMENT, text) if _UNSTORABLE.search(text) else text


def _word(value: object) -> str:
    if not isinstance(value, str):
        return "" if value is None else str(value)
    return storable(value)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _verbosity(value: object) -> int:
    return min(max(_count(value), 0), _MAX_VERBOSITY)


def _time(value: object) -> datetime:
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return clock.now()
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
