"""The recurrence of an iCalendar rule (RFC 5545, 3.3.10), expanded on a clock without a zone.

Written here because the work must be bounded: dateutil looks for 30 February until the year 9999,
which takes it a minute in which nothing can interrupt it. A test compares the two.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Final

from dispatcher.domain.wall_time import ScheduleError

#: Days and times that are looked at for one answer; the days of 82 years.
MOST_STEPS: Final = 30_000
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True)
class Recurrence:
    """The parts of one RRULE. Empty sets: the part is not given.

    Attributes:
        frequency: ``YEARLY``, ``MONTHLY``, ``WEEKLY``, ``DAILY``, ``HOURLY`` or ``MINUTELY``.
        weekdays: (which one, weekday from Monday = 0); which: 0 every, 2 the second, -1 the last.
        positions: BYSETPOS.
        week_start: a weekday.
    """

    frequency: str
    interval: int = 1
    count: int | None = None
    months: frozenset[int] = frozenset()
    month_days: frozenset[int] = frozenset()
    year_days: frozenset[int] = frozenset()
    weeks: frozenset[int] = frozenset()
    weekdays: frozenset[tuple[int, int]] = frozenset()
    hours: frozenset[int] = frozenset()
    minutes: frozenset[int] = frozenset()
    seconds: frozenset[int] = frozenset()
    positions: frozenset[int] = frozenset()
    week_start: int = 0

    @property
    def is_below_days(self) -> bool:
        """Whether it recurs within a day."""
        return self.frequency in ("HOURLY", "MINUTELY")

    @property
    def names_days(self) -> bool:
        """Whether some days are left out."""
        return bool(self.months or self.month_days or self.year_days or self.weekdays)

    def walls(self, start: datetime, after: datetime) -> Iterator[datetime]:
        """Times after ``after``, in order, of the rule that begins at ``start``.

        Raises:
            ScheduleError: no more of them within a bounded search.
        """
        # without a number of times there is no need to count from the start
        since = start if self.count is not None else max(start, after)
        expansion = _Expansion(self, start, since)
        times = (wall for wall in expansion.times() if wall >= start)
        for wall in islice(times, self.count):
            if wall > after:
                expansion.steps = 0
                yield wall


class _Expansion:
    def __init__(self, rule: Recurrence, start: datetime, since: datetime) -> None:
        self.steps = 0
        self._rule = rule
        self._start = start
        self._since = since
        self._month_days = rule.month_days
        self._months = rule.months
        self._weekdays = rule.weekdays
        self._fill_from_start()

    def _fill_from_start(self) -> None:
        """What the rule leaves open is as in its first time."""
        rule, start = self._rule, self._start
        if rule.weeks or rule.year_days or rule.month_days or rule.weekdays:
            return
        if rule.frequency == "YEARLY":
            self._months = rule.months or frozenset({start.month})
        if rule.frequency in ("YEARLY", "MONTHLY"):
            self._month_days = frozenset({start.day})
        if rule.frequency == "WEEKLY":
            self._weekdays = frozenset({(0, start.weekday())})

    def times(self) -> Iterator[datetime]:
        """Everything from about ``since``; ends with the calendar, in the year 9999."""
        try:
            for period in self._periods():
                yield from self._at_positions(list(period)) if self._rule.positions else period
        except OverflowError:
            return
        except ValueError as error:  # a year that there is none of
            if isinstance(error, ScheduleError):
                raise

    def _at_positions(self, times: list[datetime]) -> list[datetime]:
        found = set()
        for position in self._rule.positions:
            index = position - 1 if position > 0 else len(times) + position
            if 0 <= index < len(times):
                found.add(times[index])
        return sorted(found)

    def _spend(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise ScheduleError(
                "the rule has no time within reach: its parts contradict each other,"
                " or it would take too long to find the next one"
            )

    def _periods(self) -> Iterator[Iterator[datetime]]:
        if self._rule.is_below_days:
            yield from self._periods_within_days()
            return
        hours = sorted(self._rule.hours or {self._start.hour})
        times = [time(h, m, s) for h in hours for m in self._minutes() for s in self._seconds()]
        for days in self._day_sets():
            yield (moment for day in days for moment in self._combined(day, times))

    def _combined(self, day: date, times: list[time]) -> Iterator[datetime]:
        for at in times:
            self._spend()
            yield datetime.combine(day, at)

    def _minutes(self) -> list[int]:
        return sorted(self._rule.minutes or {self._start.minute})

    def _seconds(self) -> list[int]:
        return sorted(self._rule.seconds or {self._start.second})

    # -- days

    def _day_sets(self) -> Iterator[Iterator[date]]:
        """The days of each period, those that fit."""
        for first, days in self._spans():
            yield self._fitting(first, days)

    def _spans(self) -> Iterator[tuple[date, int]]:
        """(first day, number of days) of each period, from the one that ``since`` is in."""
        rule, start, since = self._rule, self._start.date(), self._since.date()
        step = rule.interval
        if rule.frequency == "YEARLY":
            year = start.year + (since.year - start.year) // step * step
            while True:
                yield date(year, 1, 1), 366 if calendar.isleap(year) else 365
                year += step
        if rule.frequency == "MONTHLY":
            months = (since.year - start.year) * 12 + since.month - start.month
            month = start.year * 12 + start.month - 1 + months // step * step
            while True:
                year, index = divmod(month, 12)
                yield date(year, index + 1, 1), calendar.monthrange(year, index + 1)[1]
                month += step
        length = 7 if rule.frequency == "WEEKLY" else 1
        if length == 7:
            start -= timedelta(days=(start.weekday() - rule.week_start) % 7)
        day = start + timedelta(days=(since - start).days // (length * step) * length * step)
        while True:
            yield day, length
            day += timedelta(days=length * step)

    def _fitting(self, first: date, days: int) -> Iterator[date]:
        last = first + timedelta(days=days - 1)
        day = first
        while day <= last:
            self._spend()
            if self._months and day.month not in self._months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self._fits(day):
                yield day
            day += _DAY

    def _fits(self, day: date) -> bool:
        if self._months and day.month not in self._months:
            return False
        if self._month_days:
            length = calendar.monthrange(day.year, day.month)[1]
            if not {day.day, day.day - length - 1} & self._month_days:
                return False
        if self._rule.year_days:
            number, length = day.timetuple().tm_yday, 366 if calendar.isleap(day.year) else 365
            if not {number, number - length - 1} & self._rule.year_days:
                return False
        if self._rule.weeks and not self._fits_week(day):
            return False
        return not self._weekdays or self._fits_weekday(day)

    def _fits_week(self, day: date) -> bool:
        year, week, _ = day.isocalendar()
        weeks = date(year, 12, 28).isocalendar().week
        return bool({week, week - weeks - 1} & self._rule.weeks)

    def _fits_weekday(self, day: date) -> bool:
        weekday = day.weekday()
        wanted = {which for which, of in self._weekdays if of == weekday}
        if not wanted or 0 in wanted:
            return bool(wanted)
        if self._rule.frequency == "YEARLY" and not self._rule.months:
            index, length = day.timetuple().tm_yday, 366 if calendar.isleap(day.year) else 365
        else:
            index, length = day.day, calendar.monthrange(day.year, day.month)[1]
        return bool({(index - 1) // 7 + 1, -((length - index) // 7 + 1)} & wanted)

    # -- hours and minutes

    def _periods_within_days(self) -> Iterator[Iterator[datetime]]:
        hourly = self._rule.frequency == "HOURLY"
        unit = timedelta(hours=1) if hourly else timedelta(minutes=1)
        base = self._start.replace(minute=0 if hourly else self._start.minute, second=0)
        base = base.replace(microsecond=0)
        day, step = self._since.date(), self._rule.interval
        while True:
            self._spend()
            if self._fits(day):
                midnight = datetime.combine(day, time())
                first = -((midnight - base) // unit) % step
                if midnight < self._since:
                    first += max(0, (self._since - midnight) // unit - first) // step * step
                for index in range(first, _DAY // unit, step):
                    self._spend()
                    yield self._within(midnight + index * unit, hourly)
            day += _DAY

    def _within(self, begins: datetime, hourly: bool) -> Iterator[datetime]:
        """The times of one hour, or of one minute."""
        if self._rule.hours and begins.hour not in self._rule.hours:
            return
        if hourly:
            minutes = self._minutes()
        elif not self._rule.minutes or begins.minute in self._rule.minutes:
            minutes = [begins.minute]
        else:
            return
        for minute in minutes:
            for second in self._seconds():
                yield begins.replace(minute=minute, second=second)
