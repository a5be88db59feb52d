"""Wall clock times of a zone, and the moments that they stand for when a clock is changed.

A time that a change repeats is the first of the two; one that a change skips is read with the
offset before the change, so 02:30 becomes 03:30 (RFC 5545, 3.3.5). So each wall time is one moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from dispatcher.domain.text import shown

#: Wall times after a wall time, in order. The offset is that of the clock that they are read on.
Walls = Callable[[datetime, timedelta], Iterator[datetime]]

#: Times are between the first day of the first of these years and that of the second.
YEARS: Final = (1970, 2200)

_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_ZONE = re.compile(r"[A-Z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")


class ScheduleError(ValueError):
    """A rule that cannot be evaluated.

    Args:
        message: words for whoever wrote it.
        field: what is wrong: ``rule``, ``time_zone``, ``starts`` or ``ends``.
    """

    def __init__(self, message: str, field: str = "rule") -> None:
        super().__init__(message)
        self.field = field


def read_zone(name: object) -> ZoneInfo:
    """The zone of an IANA name (``Europe/Berlin``, ``UTC``).

    Raises:
        ScheduleError: there is none of this name.
    """
    if isinstance(name, str) and len(name) <= 64 and _ZONE.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (OSError, ValueError, KeyError):  # a directory; no zone at all
            pass
    raise ScheduleError(f"there is no time zone {shown(name)}", "time_zone")


def moment_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """The moment of a wall time, in UTC."""
    return wall.replace(tzinfo=zone, fold=0).astimezone(UTC)


def wall_of(moment: datetime, zone: ZoneInfo) -> datetime:
    """What the clocks of a zone show at a moment, without a zone."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def offset_at(moment: datetime, zone: ZoneInfo) -> timedelta:
    """How far the clocks of a zone are ahead of UTC at a moment."""
    return moment.astimezone(zone).utcoffset() or timedelta()


def next_by_wall(walls: Walls, zone: ZoneInfo, moment: datetime) -> datetime | None:
    """The first moment after ``moment`` that one of the wall times stands for: each fires once."""
    # a skipped time lies before what the clock shows now, and its moment may still come
    behind = min(offset_at(moment, zone), offset_at(moment - _DAY, zone))
    first: datetime | None = None
    for wall in walls(_naive(moment) + behind, timedelta()):
        if first is not None and wall >= wall_of(first, zone):
            break
        found = moment_of(wall, zone)
        if found > moment and (first is None or found < first):
            first = found
            if wall_of(first, zone) == wall:
                break
    return first


def next_by_elapsed(walls: Walls, zone: ZoneInfo, moment: datetime) -> datetime | None:
    """The first moment after ``moment`` at which a clock shows one of the wall times.

    For rules of every hour: a clock that is set back shows the hour again, and it is another hour.
    """
    offset = offset_at(moment, zone)
    start = _naive(moment) + offset
    at = moment
    while True:
        wall = next(walls(start, offset), None)
        if wall is None:
            return None
        found = (wall - offset).replace(tzinfo=UTC)
        if offset_at(found, zone) == offset:
            return found
        at = _change(zone, at, found)
        offset = offset_at(at, zone)
        start = _naive(at) + offset - _SECOND


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The moment, between two of different offsets, at which the offset changes."""
    offset = offset_at(before, zone)
    low, high = before.replace(microsecond=0), after
    while high - low > _SECOND:
        middle = low + timedelta(seconds=(high - low) // _SECOND // 2)
        if offset_at(middle, zone) == offset:
            low = middle
        else:
            high = middle
    return high


def _naive(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)
