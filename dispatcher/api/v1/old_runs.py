"""Runs that the old service has made: ``artifacts/<uuid>/`` of the root directory, read as it read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from dispatcher.api.v1.envelope import Refused
from dispatcher.api.v1.root_directory import RootDirectory

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EVENT: Final = re.compile(r"([0-9]{1,18})-([0-9a-f-]{1,64})")
#: Events that a list with filters never shows.
_NEVER: Final = (
    "playbook_on_start",
    "playbook_on_play_start",
    "playbook_on_task_start",
    "playbook_on_stats",
)
_SHOWN: Final = ("host", "task", "role", "event")


def find(root: RootDirectory, uuid: str) -> Path | None:
    """The directory of a run; None if there is none."""
    directory = root.path / "artifacts" / uuid
    return directory if _UUID.fullmatch(uuid) and directory.is_dir() else None


def word_of(directory: Path) -> str:
    """How the run ended.

    Raises:
        Refused: the service was ended before the run was.
    """
    try:
        return (directory / "status").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise Refused("UNKNOWN", "The artifacts directory is incomplete!") from None


def list_events(
    directory: Path, filters: Mapping[str, str], after: int
) -> dict[str, dict[str, Any]]:
    """Key → summary of each event that the filters let pass, in order."""
    return {
        key: _summary(event)
        for counter, key, event in _events(directory)
        if counter > after and _passes(event, filters)
    }


def read_event(directory: Path, key: str) -> dict[str, Any] | None:
    """One event, whole."""
    if not _EVENT.fullmatch(key):
        return None
    event = _read(directory / "job_events" / f"{key}.json")
    return None if event is None else {**event, "event_data": event.get("event_data") or {}}


def _events(directory: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    found = []
    for file in (directory / "job_events").glob("*.json"):
        name = _EVENT.fullmatch(file.stem)
        if name is not None:
            found.append((int(name[1]), file))
    for counter, file in sorted(found):
        event = _read(file)
        if event is not None:
            yield counter, file.stem, event


def _read(file: Path) -> dict[str, Any] | None:
    try:
        event = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _data(event: Mapping[str, Any]) -> dict[str, Any]:
    data = event.get("event_data")
    return data if isinstance(data, dict) else {}


def _passes(event: Mapping[str, Any], filters: Mapping[str, str]) -> bool:
    if not filters:
        return True
    if event.get("event") in _NEVER:
        return False
    data = _data(event)
    result = data.get("res")
    places = [event, data, result if isinstance(result, dict) else {}]
    return not data or all(
        any(place.get(name) == value for place in places) for name, value in filters.items()
    )


def _summary(event: Mapping[str, Any]) -> dict[str, Any]:
    both = {**event, **_data(event)}
    return {name: both[name] for name in _SHOWN if name in both}
