"""Explanations of jobs: why one waits and until when, where one is, what became of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row

from dispatcher.db import explain_rows
from dispatcher.db.explain_rows import Backlog
from dispatcher.domain.status import FINAL, Kind, Status
from dispatcher.errors import NotFound
from schedulers.core import blocking
from schedulers.core.decision import Fail
from schedulers.core.explain import Blocker, explain
from schedulers.core.reasons import words


@dataclass(frozen=True)
class JobExplanation:
    """Where a job stands.

    Attributes:
        words: one sentence for people.
        blockers: what keeps a pending job from starting, in the order of the planner's questions.
        position: among those that stay pending, from 1; None when no manager counts it yet.
        expected_start: None when it cannot be told, or lies behind.
        expected_end: of a running job, if jobs like it have ended before.
    """

    id: int
    status: Status
    words: str
    blockers: Sequence[Blocker] = ()
    position: int | None = None
    expected_start: datetime | None = None
    expected_end: datetime | None = None


@dataclass(frozen=True)
class Case:
    """What :func:`read_case` has read of a job; everything behind it needs no database."""

    row: Row[Any]
    backlog: Backlog | None = None
    seconds: float | None = None


def read_case(
    connection: Connection, job_id: int, *, reserve_after: float, lock_cooldown: float
) -> Case:
    """Read everything that an explanation needs; to be called in one snapshot.

    Args:
        reserve_after, lock_cooldown: the settings of these names.

    Raises:
        NotFound: there is no such job.
    """
    row = explain_rows.read_row(connection, job_id)
    if row is None:
        raise NotFound
    if row.status == Status.RUNNING:
        return Case(row, seconds=explain_rows.expected_seconds(connection, row))
    if row.status == Status.PENDING:
        found = explain_rows.read_backlog(
            connection, row, reserve_after=reserve_after, lock_cooldown=lock_cooldown
        )
        return Case(row, found)
    return Case(row)


def explain_case(case: Case) -> JobExplanation:
    """Put a job's case into words; a long backlog takes a second of computing."""
    row, status = case.row, Status(case.row.status)
    if status in FINAL:
        return JobExplanation(row.id, status, row.explanation or f"Ended: {status}.")
    if status == Status.PENDING:
        return _pending(case)
    there = JobExplanation(row.id, status, _whereabouts(row))
    if case.seconds is None:
        return there
    return replace(there, expected_end=row.started + timedelta(seconds=case.seconds))


def _whereabouts(row: Row[Any]) -> str:
    if row.status == Status.WAITING:
        if row.queued_on_node:
            return f"Node {row.node} has it in its queue."
        return f"Node {row.node} was chosen and has not taken it yet."
    where = "" if row.node is None else f" on node {row.node}"
    if row.cancel_requested:
        return f"Runs{where}; its cancel was asked for."
    return f"Runs{where}."


def _pending(case: Case) -> JobExplanation:
    row, backlog = case.row, case.backlog
    if backlog is None:
        blockers = (_outside(row),)
        return JobExplanation(row.id, Status.PENDING, blockers[0].words, blockers)
    settled = blocking.by_dependencies(backlog.job)
    if isinstance(settled, Fail):
        text = f"The next pass ends it: {settled.explanation}"
        return JobExplanation(row.id, Status.PENDING, text)
    found = explain(backlog.world, backlog.head, backlog.job, backlog.times)
    return JobExplanation(
        row.id,
        Status.PENDING,
        found.blockers[0].words if found.blockers else "The next pass starts it.",
        found.blockers,
        found.position + backlog.unread,
        # behind jobs that were not read it would be too early
        None if backlog.unread else found.expected_start,
    )


def _outside(row: Row[Any]) -> Blocker:
    """Why the TaskManager does not consider a pending job."""
    if row.kind == Kind.APPROVAL:
        return _blocker("approval", {"until": _moment(row.expires)})
    if row.quarantined_until is not None:
        data = {"until": _moment(row.quarantined_until), "strikes": row.strikes}
        return _blocker("quarantined", data)
    return _blocker("unprocessed", {})


def _blocker(code: str, data: Mapping[str, object]) -> Blocker:
    return Blocker(code, data, words(code, data))


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
