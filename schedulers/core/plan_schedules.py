"""Decides which due times of schedules are launched, and when each schedule is due next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dispatcher.domain.schedule import ScheduleError, due_times, next_after, read_timing

#: CPU seconds of one plan; what is left then is due in the next pass.
PLAN_SECONDS: Final = 2.0
#: Launches of one plan, about: they are made in one transaction.
MOST_LAUNCHES: Final = 1_000


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule whose time has come.

    Attributes:
        rule_kind: ``cron`` or ``ical``.
        misfire: ``skip``, ``once`` or ``all``: what happens to times that were missed.
        next_run: the first due time that nothing was decided about.
        target_exists: whether what it launches is still there.
        target: what that is, in words.
    """

    id: int
    rule_kind: str
    rule: str
    time_zone: str
    starts: datetime | None
    ends: datetime | None
    misfire: str
    misfire_limit: int
    next_run: datetime
    target_exists: bool
    target: str


@dataclass(frozen=True, slots=True)
class LaunchDue:
    """One launch for each of these due times; then it is due at ``next_run`` (None: never again).

    Attributes:
        observed: the due time that the schedule's row had in the snapshot.
    """

    schedule_id: int
    observed: datetime
    times: tuple[datetime, ...]
    next_run: datetime | None


@dataclass(frozen=True, slots=True)
class DisableSchedule:
    """The schedule cannot go on: it is disabled, with the reason for people."""

    schedule_id: int
    observed: datetime
    reason: str


ScheduleDecision = LaunchDue | DisableSchedule


def plan_schedules(
    schedules: Sequence[DueSchedule], now: datetime, *, cpu: Callable[[], float]
) -> list[ScheduleDecision]:
    """One decision for each schedule, in their order; each depends on that schedule alone.

    Args:
        now: by the database's clock.
        cpu: CPU seconds of this thread. After :data:`PLAN_SECONDS` of it, or
            :data:`MOST_LAUNCHES`, the rest is left out.
    """
    started = cpu()
    launches = 0
    decisions: list[ScheduleDecision] = []
    for schedule in schedules:
        if decisions and (cpu() - started > PLAN_SECONDS or launches >= MOST_LAUNCHES):
            break
        decision = _decide(schedule, now)
        if isinstance(decision, LaunchDue):
            launches += len(decision.times)
        decisions.append(decision)
    return decisions


def _decide(schedule: DueSchedule, now: datetime) -> ScheduleDecision:
    if not schedule.target_exists:
        return DisableSchedule(schedule.id, schedule.next_run, f"{schedule.target} was deleted")
    try:
        timing = read_timing(
            schedule.rule_kind,
            schedule.rule,
            schedule.time_zone,
            starts=schedule.starts,
            ends=schedule.ends,
        )
        times = due_times(timing, schedule.next_run, now, schedule.misfire, schedule.misfire_limit)
        return LaunchDue(
            schedule.id,
            schedule.next_run,
            tuple(times),
            next_after(timing, max(now, schedule.next_run)),
        )
    except ScheduleError as error:
        return DisableSchedule(
            schedule.id, schedule.next_run, f"the rule cannot be evaluated: {error}"
        )
