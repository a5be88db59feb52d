"""Clock changes: what a zone's clock skips or repeats is due exactly once, in every zone and year."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from dispatcher.domain.schedule import preview, read_timing

#: One or two hours, half an hour, at midnight, a day left out, summer time in winter, and twice
#: in a month; the last has none.
ZONES = (
    "Europe/Berlin", "Europe/Dublin", "America/New_York", "America/Havana", "America/Santiago",
    "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "Africa/Cairo",
    "Pacific/Apia", "Asia/Kathmandu",
)  # fmt: skip
YEARS = (2011, 2016, 2026, 2027)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    found = moment.astimezone(zone).utcoffset()
    assert found is not None
    return found


def changes(zone: ZoneInfo) -> list[datetime]:
    """The moments at which the clocks are changed, found by looking at every quarter of an hour."""
    found = []
    for day in (datetime(year, 1, 1, tzinfo=UTC) + n * DAY for year in YEARS for n in range(365)):
        if offset(day, zone) != offset(day + DAY, zone):
            quarters = [day + n * 15 * MINUTE for n in range(1, 97)]
            found.append(
                next(q for q in quarters if offset(q, zone) != offset(q - 15 * MINUTE, zone))
            )
    return found


def walls_around(change: datetime, zone: ZoneInfo) -> list[time]:
    """Times of day that the change skips or repeats, and some around."""
    before = (change - 1 * MINUTE).astimezone(zone).replace(tzinfo=None) + MINUTE
    after = change.astimezone(zone).replace(tzinfo=None)
    low, high = min(before, after), max(before, after)
    step = max(timedelta(minutes=20), (high - low) / 3)
    count = int((high - low) / step) + 3
    return sorted({(low - step + n * step).time().replace(second=0) for n in range(count)})


def expected(first: date, at: time, zone: ZoneInfo) -> list[datetime]:
    """Each day once: the first of two such times; one that is skipped by the offset before."""
    walls = (datetime.combine(first + n * DAY, at, tzinfo=zone) for n in range(7))
    return sorted({wall.astimezone(UTC) for wall in walls})


@pytest.mark.parametrize("name", ZONES)
def test_a_daily_time_is_due_once_a_day_whatever_the_clocks_do(name: str) -> None:
    zone = ZoneInfo(name)
    found = changes(zone)
    assert found or name == "Asia/Kathmandu"
    for change in found:
        first = (change - 3 * DAY).astimezone(zone).date()
        for at in walls_around(change, zone):
            due = expected(first, at, zone)
            cron = read_timing("cron", f"{at.minute} {at.hour} * * *", name)
            start = datetime.combine(date(2000, 1, 3), at)
            ical = read_timing("ical", f"DTSTART;TZID={name}:{start:%Y%m%dT%H%M%S} RRULE:FREQ=DAILY", "UTC")  # fmt: skip
            for timing in (cron, ical):
                assert preview(timing, due[0] - MINUTE, len(due)) == due, (change, at, timing.rule)
                # and from within, whatever moment is asked about
                for moment in (change - MINUTE, change, change + MINUTE, change + 61 * MINUTE):
                    later = [each for each in due if each > moment]
                    assert preview(timing, moment, len(later)) == later, (change, at, moment)


@pytest.mark.parametrize("name", ZONES)
def test_a_rule_of_every_hour_goes_on_as_hours_pass(name: str) -> None:
    zone = ZoneInfo(name)
    for change in changes(zone):
        start = change - timedelta(hours=26)
        minutes = [start + n * MINUTE for n in range(1, 52 * 60)]
        due = [m for m in minutes if m.astimezone(zone).minute in (10, 45)]
        timing = read_timing("cron", "10,45 * * * *", name)
        assert preview(timing, start, len(due)) == due, change
        begun = (change - 10 * DAY).astimezone(zone).replace(minute=0, tzinfo=None)
        rule = f"DTSTART;TZID={name}:{begun:%Y%m%dT%H%M%S} RRULE:FREQ=HOURLY;BYMINUTE=10,45"
        assert preview(read_timing("ical", rule, "UTC"), start, len(due)) == due, change


def test_every_fifth_minute_neither_stops_nor_doubles_while_an_hour_is_repeated() -> None:
    start = datetime(2026, 10, 24, 22, tzinfo=UTC)
    every = [start + n * 5 * MINUTE for n in range(1, 100)]
    cron = read_timing("cron", "*/5 * * * *", "Europe/Berlin")
    ical = read_timing("ical", "DTSTART;TZID=Europe/Berlin:20200101T000000 RRULE:FREQ=MINUTELY;INTERVAL=5", "UTC")  # fmt: skip
    assert preview(cron, start, 99) == every
    assert preview(ical, start, 99) == every


def test_times_in_a_skipped_hour_are_due_as_often_as_on_other_days() -> None:
    timing = read_timing("cron", "*/15 2 * * *", "Europe/Berlin")
    found = preview(timing, datetime(2026, 3, 28, 12, tzinfo=UTC), 8)
    shown = [f"{each.astimezone(ZoneInfo('Europe/Berlin')):%d %H:%M}" for each in found]
    assert shown == ["29 03:00", "29 03:15", "29 03:30", "29 03:45",
                     "30 02:00", "30 02:15", "30 02:30", "30 02:45"]  # fmt: skip


def test_a_time_that_is_skipped_comes_in_its_place_among_the_others() -> None:
    """02:30 is read as 03:30, which is after 03:10 of the same rule."""
    timing = read_timing("cron", "10,30 2,3 * * *", "Europe/Berlin")
    found = preview(timing, datetime(2026, 3, 28, 12, tzinfo=UTC), 3)
    shown = [f"{each.astimezone(ZoneInfo('Europe/Berlin')):%d %H:%M}" for each in found]
    assert shown == ["29 03:10", "29 03:30", "30 02:10"], "two of one moment are one"


def test_a_skipped_time_may_be_due_after_a_later_one_that_is_not_skipped() -> None:
    """Half an hour is skipped: 02:10 is read as 02:40, and 02:35 comes before it."""
    name = "Australia/Lord_Howe"
    rule = f"DTSTART;TZID={name}:20260101T000000 RRULE:FREQ=DAILY;BYHOUR=2;BYMINUTE=10,35"
    for timing in (
        read_timing("cron", "10,35 2 * * *", name),
        read_timing("ical", rule, "UTC"),
    ):
        found = preview(timing, datetime(2026, 10, 3, 12, tzinfo=UTC), 3)
        shown = [f"{each.astimezone(ZoneInfo(name)):%d %H:%M}" for each in found]
        assert shown == ["04 02:35", "04 02:40", "05 02:10"]
