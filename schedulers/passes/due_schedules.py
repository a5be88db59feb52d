"""The manager of schedules: each due time is launched once, and each schedule moves on by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from dispatcher import clock, logs
from dispatcher.actions.launch_scheduled import ScheduledLaunch, launch_scheduled
from dispatcher.actions.launched import Launched
from dispatcher.broker.messages import Manager, Owed
from dispatcher.db import schedule_rows
from dispatcher.errors import DispatcherError, NotFound
from schedulers.core.decision import Strike
from schedulers.core.plan_schedules import (
    DisableSchedule,
    DueSchedule,
    LaunchDue,
    ScheduleDecision,
    plan_schedules,
)
from schedulers.passes.backlog import Backlog, Cursors, Window
from schedulers.passes.manager_pass import Applied, Ended, Pass
from schedulers.passes.windows import walk

log = logs.get(__name__)


def run(under_way: Pass) -> Ended:
    """One pass over the schedules that are due."""
    due: Backlog[DueSchedule, ScheduleDecision] = DueSchedules()
    return walk(under_way, due)


class DueSchedules:
    """Schedules whose time has come, in order of id."""

    def __init__(self) -> None:
        self.stopped_early = False
        self._now = datetime.min.replace(tzinfo=UTC)

    def has_more(self, connection: Connection) -> bool:
        """Whether any schedule is due: time alone makes it so."""
        return schedule_rows.any_due(connection)

    def load(self, connection: Connection) -> None:
        """The database's clock, once for the whole pass."""
        self._now = connection.execute(text("SELECT dispatcher_now()")).scalar_one()

    def read(self, connection: Connection, cursors: Cursors, size: int) -> Window[DueSchedule]:
        """The next due schedules behind the last one that was read."""
        rows = schedule_rows.read_due(connection, self._now, cursors.get("id", 0), size)
        return Window(_schedules(rows), {"id": rows[-1].id} if len(rows) == size else {})

    def named(self, connection: Connection, ids: Collection[int]) -> Sequence[DueSchedule]:
        """Those of the given schedules that are still due."""
        return _schedules(schedule_rows.read_named(connection, self._now, ids))

    def id_of(self, item: DueSchedule) -> int:
        """A schedule's id."""
        return item.id

    def decided_about(self, decision: ScheduleDecision) -> int:
        """The schedule's id."""
        return decision.schedule_id

    def plan(self, items: Sequence[DueSchedule]) -> Sequence[ScheduleDecision | Strike]:
        """What each launches, and when it is due next."""
        decisions = plan_schedules(items, self._now, cpu=clock.thread_cpu)
        self.stopped_early |= len(decisions) < len(items)
        return decisions

    def apply(self, connection: Connection, decisions: Sequence[ScheduleDecision]) -> Applied:
        """Launch, move on and disable, all in this transaction: a due time is launched once.

        Whoever changed or disabled a schedule meanwhile has decided anew: it is left alone.
        """
        rows = schedule_rows.lock_unchanged(
            connection, {d.schedule_id: d.observed for d in decisions}
        )
        ours = [d for d in decisions if d.schedule_id in rows]
        launching = [d for d in ours if isinstance(d, LaunchDue)]
        reasons = {d.schedule_id: d.reason for d in ours if isinstance(d, DisableSchedule)}
        made, owed = _launch(connection, launching, rows)
        reasons |= _gone(made, rows)
        schedule_rows.note_launches(connection, [_noted(*each) for each in made])
        last = {schedule_id: due for schedule_id, due, _ in made}
        schedule_rows.move_on(
            connection,
            [(d.schedule_id, d.next_run, last.get(d.schedule_id)) for d in launching],
        )
        launched = sum(isinstance(answer, Launched) for _, _, answer in made)
        counts = {"launch": launched, "refused": len(made) - launched}
        counts["disable"] = _disable(connection, reasons)
        skipped = len(decisions) - len(ours)
        return Applied(owed, counts, changed=launched > 0, skipped=skipped)

    def strike(self, connection: Connection, strikes: Sequence[Strike]) -> Applied:
        """Disable schedules whose handling raised: the others must not wait for them."""
        reasons = {s.job_id: f"it could not be handled: {s.error}" for s in strikes}
        return Applied(counts={"disable": _disable(connection, reasons)})

    def next_due(self, connection: Connection) -> datetime | None:
        """Nothing: :meth:`has_more` looks at the clock."""
        return None


#: (schedule, due, its job or why there is none)
_Made = tuple[int, datetime, Launched | DispatcherError]


def _schedules(rows: Sequence[Row[Any]]) -> list[DueSchedule]:
    return [
        DueSchedule(
            id=row.id,
            rule_kind=row.rule_kind,
            rule=row.rule,
            time_zone=row.time_zone,
            starts=row.starts,
            ends=row.ends,
            misfire=row.misfire,
            misfire_limit=row.misfire_limit,
            next_run=row.next_run,
            target_exists=row.target_exists,
            target=f"{schedule_rows.TARGETS[row.launches]} {row.template_id}",
        )
        for row in rows
    ]


def _launch(
    connection: Connection, decisions: Sequence[LaunchDue], rows: Mapping[int, Row[Any]]
) -> tuple[list[_Made], Owed]:
    """Launch the due times that nobody has launched, each kind of target in one batch."""
    wanted = [(d.schedule_id, due) for d in decisions for due in d.times]
    batches: dict[str, list[tuple[int, datetime]]] = defaultdict(list)
    for schedule_id, due in schedule_rows.take_due_times(connection, wanted):
        batches[rows[schedule_id].launches].append((schedule_id, due))
    made: list[_Made] = []
    owed = Owed()
    for launches, batch in batches.items():
        answers = launch_scheduled(
            connection, launches, [_of(rows[schedule_id]) for schedule_id, _ in batch]
        )
        for (schedule_id, due), answer in zip(batch, answers, strict=True):
            made.append((schedule_id, due, answer))
            if isinstance(answer, Launched):
                owed += answer.owed
    return made, owed


def _of(row: Row[Any]) -> ScheduledLaunch:
    return ScheduledLaunch(row.id, row.template_id, row.prompts, f"schedule {row.name}")


def _noted(
    schedule_id: int, due: datetime, answer: Launched | DispatcherError
) -> tuple[int, datetime, int | None, str]:
    if isinstance(answer, Launched):
        return schedule_id, due, answer.job_id, ""
    log.warning("a scheduled launch was refused", schedule_id=schedule_id, error=str(answer))
    return schedule_id, due, None, str(answer)


def _gone(made: Sequence[_Made], rows: Mapping[int, Row[Any]]) -> dict[int, str]:
    """Schedules whose target was deleted between the snapshot and the launch."""
    return {
        schedule_id: f"{schedule_rows.TARGETS[rows[schedule_id].launches]}"
        f" {rows[schedule_id].template_id} was deleted"
        for schedule_id, _, answer in made
        if isinstance(answer, NotFound)
    }


def _disable(connection: Connection, reasons: Mapping[int, str]) -> int:
    for schedule_id, reason in reasons.items():
        log.error(
            "schedule disabled",
            manager=str(Manager.SCHEDULES),
            schedule_id=schedule_id,
            reason=reason,
        )
    return schedule_rows.disable(connection, reasons)
