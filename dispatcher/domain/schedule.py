"""When a schedule is due: a cron expression or an iCalendar rule, its zone, its start and end.

Everything is a function of the rule and of a moment that is given; no clock is read. Whatever is
asked, the work is bounded: a rule that cannot be answered within bounds is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from dispatcher.domain.cron_rule import CronRule, read_cron
from dispatcher.domain.ical_rule import IcalRule, read_ical
from dispatcher.domain.text import has_unstorable
from dispatcher.domain.wall_time import YEARS, ScheduleError, moment_of, read_zone

__all__ = [
    "MOST_MISSED",
    "ScheduleError",
    "Timing",
    "check",
    "due_times",
    "newest",
    "next_after",
    "preview",
    "read_timing",
]

#: Most missed times that a schedule can make up for.
MOST_MISSED: Final = 100
#: A due time that is older than this when it is looked at was missed.
MISSED_AFTER: Final = timedelta(minutes=1)
_BEGINNING: Final = datetime(YEARS[0], 1, 1, tzinfo=UTC)
_END: Final = datetime(YEARS[1], 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True)
class Timing:
    """A rule between two moments.

    Attributes:
        starts: no due time is before it; None: from when the rule itself begins.
        ends: no due time is after it.
    """

    rule: CronRule | IcalRule
    starts: datetime | None = None
    ends: datetime | None = None

    @property
    def zone(self) -> str:
        """The name of the zone whose clocks count."""
        return self.rule.zone.key


def read_timing(
    kind: str,
    rule: str,
    time_zone: str,
    *,
    starts: datetime | None = None,
    ends: datetime | None = None,
) -> Timing:
    """Check a rule and its bounds.

    Args:
        kind: ``cron`` or ``ical``.
        rule: the expression, or the lines DTSTART, RRULE and EXDATE.
        time_zone: of cron expressions, and of the times of a rule that name none.

    Raises:
        ScheduleError: with the field that is wrong.
    """
    zone = read_zone(time_zone)
    if not isinstance(rule, str) or has_unstorable(rule) or not rule.strip():
        raise ScheduleError("a text is required")
    for field, moment in (("starts", starts), ("ends", ends)):
        if moment is not None:
            _check_moment(moment, field)
    if starts is not None and ends is not None and ends < starts:
        raise ScheduleError("it ends before it starts", "ends")
    if kind == "cron":
        return Timing(read_cron(rule, zone), starts, ends)
    if kind == "ical":
        return Timing(read_ical(rule, zone), starts, ends)
    raise ScheduleError("cron or ical", "rule_kind")


def _check_moment(moment: datetime, field: str) -> None:
    if moment.tzinfo is None:
        raise ScheduleError("a time with a zone is required", field)
    if not YEARS[0] <= moment.year < YEARS[1]:
        raise ScheduleError(f"years from {YEARS[0]} to {YEARS[1] - 1}", field)


def next_after(timing: Timing, moment: datetime) -> datetime | None:
    """The first due time after a moment, in UTC; None when there is none any more.

    Raises:
        ScheduleError: the rule cannot be evaluated.
    """
    if timing.starts is not None:
        moment = max(moment, timing.starts - _TICK)
    if timing.ends is not None and moment >= timing.ends:
        return None
    found = timing.rule.next_after(moment)
    if found is None or (timing.ends is not None and found > timing.ends):
        return None
    return found


def check(timing: Timing) -> None:
    """Refuse a rule that gives no time at all between its start and its end.

    Raises:
        ScheduleError: it gives none, or it cannot be evaluated.
    """
    start = _BEGINNING if timing.starts is None else timing.starts
    if isinstance(timing.rule, IcalRule):
        start = max(start, moment_of(timing.rule.start, timing.rule.zone) - _TICK)
    if next_after(timing, start - _TICK) is None:
        raise ScheduleError("the rule gives no time between its start and its end")
    if isinstance(timing.rule, IcalRule) and timing.rule.is_counted:
        # times are counted from the first: the last must be within reach too
        timing.rule.next_after(_END)


def preview(timing: Timing, moment: datetime, count: int) -> list[datetime]:
    """The next due times after a moment, at most ``count``.

    Raises:
        ScheduleError: the rule cannot be evaluated.
    """
    return list(islice(_from(timing, moment), count))


def _from(timing: Timing, moment: datetime) -> Iterator[datetime]:
    found = next_after(timing, moment)
    while found is not None:
        yield found
        found = next_after(timing, found)


def newest(timing: Timing, after: datetime, until: datetime, count: int) -> list[datetime]:
    """The last due times in (after, until], at most ``count``, in order.

    However long the time between the two is, and however often the rule is due in it, only some
    ``25 x count`` due times are computed: the beginning of what is wanted is found by halving.
    """

    def within(start: datetime) -> list[datetime]:
        times = []
        for found in islice(_from(timing, start), count + 1):
            if found > until:
                break
            times.append(found)
        return times

    low, high = after, until
    times = within(low)
    if len(times) <= count:
        return times
    # at most one due time in a minute: that near, nothing more is to be decided
    while high - low > _MINUTE:
        middle = low + (high - low) / 2
        found = within(middle)
        if len(found) >= count:
            low, times = middle, found
        else:
            high = middle
        if len(found) == count:
            break
    return times[-count:]


def due_times(
    timing: Timing, next_run: datetime, now: datetime, misfire: str, limit: int
) -> list[datetime]:
    """Which of the due times from ``next_run`` until now are launched.

    A due time of the last minute is launched. What is older was missed, and the policy decides:
    ``skip``: never; ``once``: one launch for all of it, unless there is one that was not missed;
    ``all``: each, at most the last ``limit`` (those of the last minute included).

    Raises:
        ScheduleError: the rule cannot be evaluated.
    """
    if next_run > now:
        return []
    edge = now - MISSED_AFTER
    on_time = newest(timing, max(edge, next_run) - _TICK, now, 2)
    if misfire == "skip" or (misfire == "once" and on_time):
        return on_time
    wanted = 1 if misfire == "once" else min(limit, MOST_MISSED)
    return newest(timing, next_run - _TICK, now, wanted)
