"""What the server answers, as values. Members that this client does not know are kept in ``raw``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dispatcher.domain.status import FINAL

#: Exit code of a final job that comes without one.
_UNKNOWN_OUTCOME = 7


@dataclass(frozen=True)
class Job:
    """A job as ``jobs/N/`` shows it.

    Attributes:
        explanation: while pending: why it waits; in the end: why it ended so.
        node: where it runs or ran; empty before.
        elapsed: seconds it has run.
        outcome: the reason of a final status; empty before.
        retried_by: the job that repeats it, because it was lost with its node.
    """

    id: int
    name: str
    status: str
    explanation: str
    node: str
    elapsed: float
    outcome: str
    created: str
    started: str
    finished: str
    retried_by: int | None
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Job:
        return cls(
            id=int(body["id"]),
            name=_text(body, "name"),
            status=_text(body, "status"),
            explanation=_text(body, "job_explanation"),
            node=_text(body, "execution_node"),
            elapsed=float(body.get("elapsed") or 0.0),
            outcome=_text(body, "outcome"),
            created=_text(body, "created"),
            started=_text(body, "started"),
            finished=_text(body, "finished"),
            retried_by=body.get("retried_by"),
            raw=body,
        )

    @property
    def state(self) -> tuple[object, ...]:
        """What is worth telling when it changes; ``elapsed`` alone is not."""
        return self.status, self.explanation, self.node, self.raw.get("cancel_requested")

    @property
    def final(self) -> bool:
        """Whether it has ended: then all of its events can be read."""
        return self.status in FINAL

    @property
    def exit_code(self) -> int:
        """What a command that waited for this job exits with; the job must be final."""
        code = self.raw.get("exit_code")
        if isinstance(code, int):
            return code
        return {"successful": 0, "canceled": 3}.get(self.status, _UNKNOWN_OUTCOME)


@dataclass(frozen=True)
class Blocker:
    """One thing that keeps a job from starting."""

    code: str
    words: str


@dataclass(frozen=True)
class Explanation:
    """Where a job stands, as ``jobs/N/explain/`` shows it.

    Attributes:
        words: one sentence.
        blockers: in the order in which the planner asks.
        position: among those that stay pending, from 1; None when no manager counts it yet.
    """

    id: int
    status: str
    words: str
    blockers: tuple[Blocker, ...]
    position: int | None
    expected_start: datetime | None
    expected_end: datetime | None
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Explanation:
        position = body.get("position")
        return cls(
            id=int(body["id"]),
            status=_text(body, "status"),
            words=_text(body, "words"),
            blockers=tuple(
                Blocker(_text(each, "code"), _text(each, "words"))
                for each in body.get("blockers") or ()
            ),
            position=position if isinstance(position, int) else None,
            expected_start=_moment(body, "expected_start"),
            expected_end=_moment(body, "expected_end"),
            raw=body,
        )


@dataclass(frozen=True)
class JobEvent:
    """One event of a job's log.

    Attributes:
        counter: 1, 2, 3 … without gaps within a job.
        stdout: what it prints, colour codes included, without the last line's end.
        lines: number of lines that it adds to the log.
    """

    counter: int
    event: str
    stdout: str
    lines: int
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> JobEvent:
        return cls(
            counter=int(body["counter"]),
            event=_text(body, "event"),
            stdout=_text(body, "stdout"),
            lines=int(body.get("end_line") or 0) - int(body.get("start_line") or 0),
            raw=body,
        )


@dataclass(frozen=True)
class HostSummary:
    """What a job did to one host."""

    host: str
    ok: int
    changed: int
    failures: int
    unreachable: int
    skipped: int
    failed: bool

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> HostSummary:
        return cls(
            host=_text(body, "host_name"),
            ok=int(body.get("ok") or 0),
            changed=int(body.get("changed") or 0),
            failures=int(body.get("failures") or 0),
            unreachable=int(body.get("dark") or 0),
            skipped=int(body.get("skipped") or 0),
            failed=bool(body.get("failed")),
        )


@dataclass(frozen=True)
class RunningThere:
    """A job that a drain waits for.

    Attributes:
        expected_end: empty when nothing like it has run lately.
    """

    id: int
    name: str
    status: str
    started: str
    expected_end: str

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> RunningThere:
        return cls(
            id=int(body["id"]),
            name=_text(body, "name"),
            status=_text(body, "status"),
            started=_text(body, "started"),
            expected_end=_text(body, "expected_end"),
        )


@dataclass(frozen=True)
class DrainState:
    """What still runs on a node."""

    draining: bool
    jobs: tuple[RunningThere, ...]
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> DrainState:
        jobs = tuple(RunningThere.of(each) for each in body.get("jobs", ()))
        return cls(draining=bool(body.get("draining")), jobs=jobs, raw=body)


@dataclass(frozen=True)
class Node:
    """A worker node as ``instances/`` shows it.

    Attributes:
        state: of its lease: ``alive``, ``suspect``, ``lost`` or ``left``.
        errors: why it takes no jobs; empty when it does.
    """

    id: int
    name: str
    state: str
    errors: str
    capacity: int
    consumed: int
    running: int
    last_seen: str
    version: str
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Node:
        return cls(
            id=int(body["id"]),
            name=_text(body, "hostname"),
            state=_text(body, "state"),
            errors=_text(body, "errors"),
            capacity=int(body.get("capacity") or 0),
            consumed=int(body.get("consumed_capacity") or 0),
            running=int(body.get("jobs_running") or 0),
            last_seen=_text(body, "last_seen"),
            version=_text(body, "version"),
            raw=body,
        )


def _moment(body: Mapping[str, Any], name: str) -> datetime | None:
    value = _text(body, name)
    return datetime.fromisoformat(value) if value else None


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return "" if value is None else str(value)
