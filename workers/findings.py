"""What the events of a run say about its end: recap, plays, errors, artifacts, what runs on.

Fed with each event as it is spooled, cleaned and masked already.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.events import CleanEvent

RECAP = ("ok", "changed", "failures", "dark", "skipped", "rescued", "ignored", "processed")
#: Artifacts of single hosts, beside those of the run.
PER_HOST = "_per_host"
#: Most asynchronous tasks that are listed as left running.
MOST_DETACHED = 1_000
#: Most lines, and characters, of an error that are kept.
_ERROR_LINES, _ERROR_CHARACTERS = 40, 20_000
#: Events that hold a module's result.
_RESULTS = frozenset(
    {"runner_on_ok", "runner_on_failed", "runner_item_on_ok", "runner_item_on_failed"}
)
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_ERROR = re.compile(r"^(\[ERROR\]: |ERROR! )", re.MULTILINE)
_ORIGIN = re.compile(r"^Origin: (?P<file>[^<\n].*?)(?::(?P<line>\d+)(?::(?P<column>\d+))?)?$", re.M)
_EMPTY_PLAYBOOK = re.compile(r"Empty playbook, nothing to do: (?P<file>.+)$", re.M)


@dataclass(frozen=True)
class AnsibleError:
    """An error that Ansible printed outside of a host's result.

    Attributes:
        file: relative to the project where it is in it; "" when no file is named.
        line, column: from 1; 0 when not named.
    """

    text: str = ""
    file: str = ""
    line: int = 0
    column: int = 0


class Findings:
    """Collects from one run's events.

    Args:
        project: the directory whose name is cut off the files that errors name.
    """

    def __init__(self, project: str) -> None:
        self._project = project.rstrip("/") + "/"
        self._error: list[str] = []
        self._open = False
        self.stats: dict[str, dict[str, int]] | None = None
        self.plays = 0
        self.plays_without_hosts = 0
        self._run_artifacts: dict[str, Any] = {}
        self._host_artifacts: dict[str, dict[str, Any]] = {}
        self._detached: dict[tuple[str, str], str] = {}

    def add(self, event: CleanEvent) -> None:
        """Take one event into account."""
        name = event.row.event
        if event.row.stdout:
            self._look_for_error(name, event.row.stdout)
        if name == "playbook_on_play_start":
            self.plays += 1
        elif name == "playbook_on_no_hosts_matched":
            self.plays_without_hosts += 1
        elif name == "playbook_on_stats":
            self.stats = {word: _counts(event.data.get(word)) for word in RECAP}
        elif name in _RESULTS:
            self._look_for_artifacts(event.data)
            self._look_for_detached(event.data)

    @property
    def artifacts(self) -> dict[str, Any]:
        """``set_stats`` data as Ansible sums it up, known also when no recap came."""
        hosts = {PER_HOST: self._host_artifacts} if self._host_artifacts else {}
        return {**self._run_artifacts, **hosts}

    @property
    def detached(self) -> list[dict[str, str]]:
        """Asynchronous tasks that nobody has waited for: ``host``, ``job`` and ``task`` of each."""
        return [
            {"host": host, "job": job, "task": task} for (host, job), task in self._detached.items()
        ]

    @property
    def error(self) -> AnsibleError:
        """The last error, and where Ansible says it is."""
        text = "\n".join(self._error).strip()[:_ERROR_CHARACTERS]
        where = _ORIGIN.search(text) or _EMPTY_PLAYBOOK.search(text)
        if where is None:
            return AnsibleError(text)
        found = where.groupdict()
        return AnsibleError(
            text=text,
            file=found["file"].strip().removeprefix(self._project),
            line=int(found.get("line") or 0),
            column=int(found.get("column") or 0),
        )

    def _look_for_error(self, name: str, stdout: str) -> None:
        """Errors come as one event, or, before the play has begun, as one event a line."""
        if name not in ("error", "verbose"):
            self._open = False
            return
        text = _COLORS.sub("", stdout).replace("\r", "")
        begins = list(_ERROR.finditer(text))
        if begins:
            self._error = text[begins[-1].end() :].split("\n")[:_ERROR_LINES]
            self._open = name == "verbose"
        elif self._open and not text.startswith("[") and len(self._error) < _ERROR_LINES:
            self._error.append(text)
        else:
            self._open = False

    def _look_for_artifacts(self, data: Mapping[str, Any]) -> None:
        result = data.get("res")
        stats = result.get("ansible_stats") if isinstance(result, Mapping) else None
        if not isinstance(stats, Mapping) or not isinstance(stats.get("data"), Mapping):
            return
        into = self._run_artifacts
        if stats.get("per_host"):
            into = self._host_artifacts.setdefault(str(data.get("host", "")), {})
        for name, value in stats["data"].items():
            into[name] = _summed(into.get(name), value) if stats.get("aggregate", True) else value

    def _look_for_detached(self, data: Mapping[str, Any]) -> None:
        """``poll: 0`` reports a start and no end; ``async_status`` may report the end later."""
        result = data.get("res")
        job = result.get("ansible_job_id") if isinstance(result, Mapping) else None
        if not isinstance(result, Mapping) or not isinstance(job, str):
            return
        key = (str(data.get("host", "")), job)
        if result.get("finished"):
            self._detached.pop(key, None)
        elif result.get("started") and len(self._detached) < MOST_DETACHED:
            self._detached.setdefault(key, str(data.get("task") or ""))


def _summed(known: Any, value: Any) -> Any:
    """As Ansible aggregates: mappings merge, other values of one kind add up, else the old stays."""
    if known is None:
        return copy.deepcopy(value)
    if isinstance(known, Mapping) and isinstance(value, Mapping):
        return {**known, **value}
    if type(known) is not type(value):
        return known
    try:
        return known + value
    except TypeError:
        return known


def _counts(counts: object) -> dict[str, int]:
    if not isinstance(counts, Mapping):
        return {}
    return {str(host): count for host, count in counts.items() if isinstance(count, int)}
