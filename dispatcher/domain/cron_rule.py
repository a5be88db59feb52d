"""Cron expressions: five fields, as Debian's cron reads them, and the usual nicknames.

One file knows ``cronsim``. It is given times without a zone; what a change of the clock does to
them is decided in :mod:`dispatcher.domain.wall_time`, for cron and iCalendar alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from dispatcher.domain.text import shown
from dispatcher.domain.wall_time import ScheduleError, next_by_elapsed, next_by_wall

LONGEST_EXPRESSION: Final = 256
NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_ANY_TIME: Final = datetime(2000, 1, 1)


@dataclass(frozen=True)
class CronRule:
    """A checked expression.

    Attributes:
        every_hour: it names no hour; then hours are counted as they pass, else as clocks show them.
    """

    expression: str
    zone: ZoneInfo
    every_hour: bool

    def next_after(self, moment: datetime) -> datetime | None:
        """The first due time after a moment; a cron expression has always one more.

        Raises:
            ScheduleError: none in 50 years.
        """
        by = next_by_elapsed if self.every_hour else next_by_wall
        return by(self._walls, self.zone, moment)

    def _walls(self, after: datetime, offset: timedelta) -> Iterator[datetime]:
        try:
            yield from CronSim(self.expression, after)
        except OverflowError:
            pass
        raise ScheduleError(f"{shown(self.expression)} has no date within 50 years")


def read_cron(text: str, zone: ZoneInfo) -> CronRule:
    """Check an expression.

    Raises:
        ScheduleError: it is none.
    """
    if len(text) > LONGEST_EXPRESSION:
        raise ScheduleError(f"longer than {LONGEST_EXPRESSION} characters")
    expression = NICKNAMES.get(text.strip().lower(), text)
    fields = expression.split()
    if len(fields) != 5:
        raise ScheduleError(
            f"{shown(text)} is no cron expression: it needs the five fields minute, hour,"
            f" day of month, month, day of week ({len(fields)} given)"
        )
    try:
        hours = CronSim(expression, _ANY_TIME).hours
    except CronSimError as error:
        raise ScheduleError(f"{shown(text)}: {_words(str(error))}") from error
    except (AssertionError, ValueError) as error:
        raise ScheduleError(f"{shown(text)} is no cron expression") from error
    return CronRule(" ".join(fields), zone, len(hours) == 24)


def _words(error: str) -> str:
    """cronsim's ``Bad day-of-month`` in our words: a field, or a date that no month has."""
    field = error.removeprefix("Bad ")
    return f"the field {field} is wrong, or names a day that none of the months has"
