"""iCalendar rules: the lines DTSTART, RRULE and EXDATE, checked before anything is evaluated.

One line each, or one after the other with spaces between, as AWX writes them. What is not
supported is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

from dispatcher.domain.recurrence import Recurrence
from dispatcher.domain.text import shown
from dispatcher.domain.wall_time import (
    YEARS,
    ScheduleError,
    moment_of,
    next_by_elapsed,
    next_by_wall,
    offset_at,
    read_zone,
)

LONGEST_RULE: Final = 20_000
MOST_RULES: Final = 10
MOST_COUNT: Final = 10_000
MOST_EXCLUDED: Final = 1_000
_WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_FREQUENCIES: Final = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
_TIME = re.compile(r"(\d{8}T\d{6})(Z?)", re.ASCII)
_WEEKDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,6}", re.ASCII)
#: Part → (field, least, most, whether negative ones count from the end).
_LISTS: Final[Mapping[str, tuple[str, int, int, bool]]] = {
    "BYMONTH": ("months", 1, 12, False),
    "BYMONTHDAY": ("month_days", 1, 31, True),
    "BYYEARDAY": ("year_days", 1, 366, True),
    "BYWEEKNO": ("weeks", 1, 53, True),
    "BYHOUR": ("hours", 0, 23, False),
    "BYMINUTE": ("minutes", 0, 59, False),
    "BYSECOND": ("seconds", 0, 59, False),
    "BYSETPOS": ("positions", 1, 366, True),
}
#: Part → frequencies that it makes sense with (the table of RFC 5545, 3.3.10).
_ONLY_WITH: Final[Mapping[str, tuple[str, ...]]] = {
    "BYWEEKNO": ("YEARLY",),
    "BYYEARDAY": ("YEARLY", "HOURLY", "MINUTELY"),
    "BYMONTHDAY": ("YEARLY", "MONTHLY", "DAILY", "HOURLY", "MINUTELY"),
}


@dataclass(frozen=True)
class IcalRule:
    """Checked lines.

    Attributes:
        start: DTSTART, as a wall time of the zone.
        rules: each with the moment after which it has ended; what any of them gives is due.
        excluded: moments of EXDATE.
    """

    start: datetime
    zone: ZoneInfo
    rules: tuple[tuple[Recurrence, datetime | None], ...]
    excluded: frozenset[datetime] = frozenset()

    @property
    def is_counted(self) -> bool:
        """Whether a part of it has a number of times."""
        return any(rule.count is not None for rule, _ in self.rules)

    def next_after(self, moment: datetime) -> datetime | None:
        """The first due time after a moment; None when the rule is over.

        Raises:
            ScheduleError: it cannot be found within bounds.
        """
        while True:
            found = [self._next(rule, until, moment) for rule, until in self.rules]
            first = min((each for each in found if each is not None), default=None)
            if first is None or first not in self.excluded:
                return first
            moment = first

    def _next(self, rule: Recurrence, until: datetime | None, moment: datetime) -> datetime | None:
        if until is not None and moment >= until:
            return None
        by = next_by_elapsed if _counts_elapsed(rule) else next_by_wall
        found = by(partial(self._walls, rule), self.zone, moment)
        return None if found is None or (until is not None and found > until) else found

    def _walls(self, rule: Recurrence, after: datetime, offset: timedelta) -> Iterator[datetime]:
        start = self.start
        if _counts_elapsed(rule):
            start += offset - offset_at(moment_of(self.start, self.zone), self.zone)
        return rule.walls(start, after)


def _counts_elapsed(rule: Recurrence) -> bool:
    """Whether hours are counted as they pass. A rule that names hours means those of the clock,
    and one with a number of times on certain days counts them by the calendar.
    """
    counted_by_day = rule.count is not None and rule.names_days
    return rule.is_below_days and not rule.hours and not counted_by_day


def read_ical(text: str, zone: ZoneInfo) -> IcalRule:
    """Check the lines of a rule.

    Args:
        zone: of times that name none.

    Raises:
        ScheduleError: says which part is wrong.
    """
    if len(text) > LONGEST_RULE:
        raise ScheduleError(f"longer than {LONGEST_RULE} characters")
    start: tuple[datetime, ZoneInfo] | None = None
    rules, exclusions = [], []
    for line in text.split():
        name, parameters, value = _split(line)
        if name == "DTSTART":
            if start is not None:
                raise ScheduleError("DTSTART is given twice")
            start = _read_time(name, parameters, value, zone)
        elif name == "RRULE" and not parameters:
            rules.append(value)
        elif name == "EXDATE":
            exclusions += [(parameters, each) for each in value.split(",")]
        else:
            raise ScheduleError(f"{shown(name)} is not supported: DTSTART, RRULE, EXDATE are")
    if start is None:
        raise ScheduleError("there is no DTSTART (DTSTART;TZID=Europe/Berlin:20260101T120000)")
    if not 1 <= len(rules) <= MOST_RULES:
        raise ScheduleError(f"from 1 to {MOST_RULES} RRULE lines are needed, {len(rules)} given")
    if len(exclusions) > MOST_EXCLUDED:
        raise ScheduleError(f"at most {MOST_EXCLUDED} times in EXDATE")
    wall, zone = start
    excluded = [_read_time("EXDATE", parameters, each, zone) for parameters, each in exclusions]
    return IcalRule(
        wall,
        zone,
        tuple(_read_rule(value, zone) for value in rules),
        frozenset(moment_of(*each) for each in excluded),
    )


def _split(line: str) -> tuple[str, dict[str, str], str]:
    """Name, parameters and value of a line; a bare rule (``FREQ=…``) is an RRULE."""
    if line.upper().startswith("FREQ="):
        return "RRULE", {}, line
    head, colon, value = line.partition(":")
    name, *parameters = head.split(";")
    if not colon or not value:
        raise ScheduleError(f"{shown(line)} is no line of a rule (NAME:VALUE)")
    pairs = dict(each.upper().split("=", 1)[0:1] + each.split("=", 1)[1:2] for each in parameters
                 if "=" in each)  # fmt: skip
    if len(pairs) != len(parameters):
        raise ScheduleError(f"the parameters of {shown(name)} are wrong")
    return name.upper(), pairs, value


def _read_time(
    name: str, parameters: Mapping[str, str], value: str, zone: ZoneInfo
) -> tuple[datetime, ZoneInfo]:
    strangers = set(parameters) - {"TZID", "VALUE"}
    if strangers or parameters.get("VALUE", "DATE-TIME").upper() != "DATE-TIME":
        raise ScheduleError(f"{name} takes TZID and nothing else")
    found = _TIME.fullmatch(value.upper())
    if found is None:
        raise ScheduleError(
            f"{name}: {shown(value)} is no time: 20260131T120000, or with a Z for UTC"
        )
    try:
        wall = datetime.strptime(found[1], "%Y%m%dT%H%M%S")
    except ValueError as error:
        raise ScheduleError(f"{name}: there is no {shown(value)}") from error
    if not YEARS[0] <= wall.year < YEARS[1]:
        raise ScheduleError(f"{name}: years from {YEARS[0]} to {YEARS[1] - 1}")
    if found[2]:
        if "TZID" in parameters:
            raise ScheduleError(f"{name} has a TZID and the Z of UTC")
        return wall, ZoneInfo("UTC")
    if "TZID" not in parameters:
        return wall, zone
    try:
        return wall, read_zone(parameters["TZID"])
    except ScheduleError as error:
        raise ScheduleError(f"{name}: {error}") from error


def _read_rule(value: str, zone: ZoneInfo) -> tuple[Recurrence, datetime | None]:
    parts: dict[str, str] = {}
    for part in value.upper().rstrip(";").split(";"):
        name, equals, given = part.partition("=")
        if not equals or not given:
            raise ScheduleError(f"RRULE: {shown(part)} is no part (NAME=VALUE)")
        if name in parts:
            raise ScheduleError(f"RRULE: {name} is given twice")
        parts[name] = given
    frequency = parts.pop("FREQ", "")
    if frequency == "SECONDLY":
        raise ScheduleError("RRULE: FREQ=SECONDLY is refused: at most one launch in a minute")
    if frequency not in _FREQUENCIES:
        raise ScheduleError(f"RRULE: FREQ must be one of {', '.join(_FREQUENCIES)}")
    if "COUNT" in parts and "UNTIL" in parts:
        raise ScheduleError("RRULE: COUNT and UNTIL exclude each other")
    until = _read_until(parts.pop("UNTIL", None), zone)
    fields: dict[str, object] = {"frequency": frequency}
    for name, given in parts.items():
        key, read = _read_part(name, given)
        fields[key] = read
    _check_together(frequency, parts)
    rule = Recurrence(**fields)  # type: ignore[arg-type]
    if len(rule.seconds) > 1:
        raise ScheduleError("RRULE: BYSECOND takes one second: at most one launch in a minute")
    return rule, until


def _read_until(value: str | None, zone: ZoneInfo) -> datetime | None:
    if value is None:
        return None
    return moment_of(*_read_time("UNTIL", {}, value, zone)).astimezone(UTC)


def _read_part(name: str, given: str) -> tuple[str, object]:
    if name == "INTERVAL":
        return "interval", _number(name, given, 1, 999_999)
    if name == "COUNT":
        return "count", _number(name, given, 1, MOST_COUNT)
    if name == "WKST":
        if given not in _WEEKDAYS:
            raise ScheduleError("RRULE: WKST is one of " + ", ".join(_WEEKDAYS))
        return "week_start", _WEEKDAYS.index(given)
    if name == "BYDAY":
        return "weekdays", frozenset(_weekday(each) for each in given.split(","))
    if name not in _LISTS:
        raise ScheduleError(f"RRULE: {shown(name)} is not supported")
    field, least, most, negative = _LISTS[name]
    numbers = [_number(name, each, -most if negative else least, most) for each in given.split(",")]
    if least == 1 and 0 in numbers:
        raise ScheduleError(f"RRULE: {name} has no 0")
    return field, frozenset(numbers)


def _number(name: str, given: str, least: int, most: int) -> int:
    if not _NUMBER.fullmatch(given) or not least <= int(given) <= most:
        raise ScheduleError(f"RRULE: {name}: {shown(given)} is not from {least} to {most}")
    return int(given)


def _weekday(given: str) -> tuple[int, int]:
    found = _WEEKDAY.fullmatch(given)
    which = int(found[1] or 0) if found else 0
    if found is None or (found[1] is not None and not 1 <= abs(which) <= 53):
        raise ScheduleError(f"RRULE: BYDAY: {shown(given)} is no day (MO, 2TU, -1FR)")
    return which, _WEEKDAYS.index(found[2])


def _check_together(frequency: str, parts: Mapping[str, str]) -> None:
    """Refuse combinations that RFC 5545 gives no meaning."""
    for name, frequencies in _ONLY_WITH.items():
        if name in parts and frequency not in frequencies:
            raise ScheduleError(f"RRULE: {name} makes no sense with FREQ={frequency}")
    numbered = any(char.isdigit() for char in parts.get("BYDAY", ""))
    if numbered and (frequency not in ("YEARLY", "MONTHLY") or "BYWEEKNO" in parts):
        raise ScheduleError("RRULE: BYDAY with a number needs FREQ=MONTHLY or YEARLY")
    if "BYWEEKNO" in parts and parts.get("WKST", "MO") != "MO":
        raise ScheduleError("RRULE: BYWEEKNO counts ISO weeks, which begin on MO")
    if "BYSETPOS" in parts and not any(p.startswith("BY") and p != "BYSETPOS" for p in parts):
        raise ScheduleError("RRULE: BYSETPOS needs another BY part to choose from")
