"""Rules of RFC 5545: the same times as dateutil gives, where it gives an answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from dateutil.rrule import rrulestr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.domain.schedule import ScheduleError, preview, read_timing

SHOWN = 12
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def numbers(least: int, most: int, *, negative: bool = False) -> st.SearchStrategy[str]:
    one = st.integers(least, most)
    if negative:
        one = one | st.integers(-most, -least)
    return st.lists(one, min_size=1, max_size=4, unique=True).map(lambda v: ",".join(map(str, v)))


def days(*, numbered: bool) -> st.SearchStrategy[str]:
    """Either all with a number or none: dateutil takes a mixture for both at once."""
    day = st.sampled_from(DAYS)
    if numbered:
        day = st.tuples(st.sampled_from([1, 2, 3, 4, 5, -1, -2]), day).map(
            lambda p: f"{p[0]}{p[1]}"
        )
    return st.lists(day, min_size=1, max_size=3, unique=True).map(",".join)


@st.composite
def rules(draw: st.DrawFn) -> tuple[datetime, str]:
    frequency = draw(
        st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"])
    )
    parts = {"FREQ": frequency}
    if draw(st.booleans()):
        parts["INTERVAL"] = str(draw(st.sampled_from([1, 2, 3, 5, 7, 12, 45])))

    def maybe(name: str, value: st.SearchStrategy[str]) -> None:
        if draw(st.integers(0, 3)) == 0:
            parts[name] = draw(value)

    maybe("BYMONTH", numbers(1, 12))
    if frequency != "WEEKLY":
        maybe("BYMONTHDAY", numbers(1, 28, negative=True))
    if frequency == "YEARLY":
        maybe("BYYEARDAY", numbers(1, 365, negative=True))
        maybe("BYWEEKNO", numbers(1, 52, negative=True))
    numbered = frequency in ("YEARLY", "MONTHLY") and "BYWEEKNO" not in parts
    maybe("BYDAY", days(numbered=numbered and draw(st.booleans())))
    maybe("BYHOUR", numbers(0, 23))
    maybe("BYMINUTE", numbers(0, 59))
    maybe("BYSECOND", st.integers(0, 59).map(str))
    if any(name.startswith("BY") for name in parts):
        maybe("BYSETPOS", numbers(1, 3, negative=True))
    if "BYWEEKNO" not in parts:
        maybe("WKST", st.sampled_from(DAYS))
    if draw(st.booleans()):
        parts["COUNT"] = str(draw(st.integers(1, 30)))
    start = datetime(2020, 1, 1) + timedelta(minutes=draw(st.integers(0, 600_000)))
    if frequency == "WEEKLY" and "BYSETPOS" in parts:
        # dateutil counts the positions of a week that it enters in the middle from there (its
        # issue 1398); what RFC 5545 says of such a week has a test of its own
        start -= timedelta(days=(start.weekday() - DAYS.index(parts.get("WKST", "MO"))) % 7)
    return start, ";".join(f"{name}={value}" for name, value in parts.items())


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rules(), st.integers(0, 900))
def test_a_rule_gives_the_times_that_dateutil_gives(rule: tuple[datetime, str], later: int) -> None:
    start, text = rule
    lines = f"DTSTART:{start:%Y%m%dT%H%M%S}Z RRULE:{text}"
    moment = start.replace(tzinfo=UTC) + timedelta(days=later, seconds=-1)
    try:
        found = preview(read_timing("ical", lines, "UTC"), moment, SHOWN)
    except ScheduleError:
        return  # one that dateutil may search for until the year 9999
    theirs = rrulestr(f"DTSTART:{start:%Y%m%dT%H%M%S}\nRRULE:{text}")
    expected = islice((t for each in theirs if (t := each.replace(tzinfo=UTC)) > moment), SHOWN)
    assert found == list(expected)


@pytest.mark.parametrize(
    ("part", "days"),
    [("BYSETPOS=1", [6, 13]), ("BYSETPOS=2", [1, 8]), ("BYSETPOS=1;WKST=WE", [1, 8])],
)
def test_positions_are_counted_from_the_beginning_of_the_week(part: str, days: list[int]) -> None:
    """RFC 5545, 3.3.10: a set of recurrence instances starts at the beginning of the interval
    defined by the FREQ rule part; here its first week has begun two days before DTSTART.
    """
    lines = f"DTSTART:20200101T000000Z RRULE:FREQ=WEEKLY;BYDAY=MO,WE;{part}"
    found = preview(read_timing("ical", lines, "UTC"), datetime(2019, 1, 1, tzinfo=UTC), 2)
    assert [each.day for each in found] == days


def test_excluded_times_are_left_out_and_count_as_given() -> None:
    lines = "DTSTART:20260101T120000Z RRULE:FREQ=DAILY;COUNT=4 EXDATE:20260102T120000Z,20260103T120000Z"  # fmt: skip
    found = preview(read_timing("ical", lines, "UTC"), datetime(2025, 1, 1, tzinfo=UTC), 9)
    assert [each.day for each in found] == [1, 4]


def test_an_end_is_a_moment_whatever_the_zone_it_is_written_in() -> None:
    start = "DTSTART;TZID=America/New_York:20260601T200000 RRULE:FREQ=DAILY;UNTIL="
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for until, count in (("20260603T000000Z", 2), ("20260602T235959Z", 1), ("20260602T200000", 2)):
        assert len(preview(read_timing("ical", start + until, "UTC"), begin, 9)) == count, until


def test_several_rules_are_due_whenever_one_of_them_is() -> None:
    lines = "DTSTART:20260101T120000Z RRULE:FREQ=MONTHLY;COUNT=2 RRULE:FREQ=DAILY;COUNT=3"
    found = preview(read_timing("ical", lines, "UTC"), datetime(2025, 1, 1, tzinfo=UTC), 9)
    assert [(each.month, each.day) for each in found] == [(1, 1), (1, 2), (1, 3), (2, 1)]


def test_days_with_and_without_a_number_are_all_due() -> None:
    lines = "DTSTART:20260101T000000Z RRULE:FREQ=MONTHLY;BYDAY=MO,1FR;COUNT=6"
    found = preview(read_timing("ical", lines, "UTC"), datetime(2025, 1, 1, tzinfo=UTC), 9)
    assert [each.day for each in found] == [2, 5, 12, 19, 26, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RRULE:FREQ=DAILY", "no DTSTART"),
        ("DTSTART:20260101T000000Z", "from 1 to 10 RRULE"),
        ("DTSTART:20260101T000000Z DTSTART:20260101T000000Z RRULE:FREQ=DAILY", "twice"),
        ("DTSTART;VALUE=DATE:20260101 RRULE:FREQ=DAILY", "TZID and nothing else"),
        ("DTSTART:20260101 RRULE:FREQ=DAILY", "is no time"),
        ("DTSTART:20260230T000000Z RRULE:FREQ=DAILY", "there is no '20260230T000000Z'"),
        ("DTSTART;TZID=Mars/Base:20260101T000000 RRULE:FREQ=DAILY", "no time zone 'Mars/Base'"),
        ("DTSTART;TZID=UTC:20260101T000000Z RRULE:FREQ=DAILY", "TZID and the Z"),
        ("DTSTART:19000101T000000Z RRULE:FREQ=DAILY", "years from 1970"),
        ("DTSTART:20260101T000000Z RDATE:20260101T000000Z RRULE:FREQ=DAILY", "'RDATE' is not supp"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=SECONDLY", "SECONDLY is refused"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=SOMETIMES", "FREQ must be one of"),
        ("DTSTART:20260101T000000Z RRULE:INTERVAL=1", "FREQ must be one of"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;COUNT=1;UNTIL=20270101T000000Z", "exclude"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;COUNT=0", "COUNT: '0' is not from 1"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;COUNT=99999", "not from 1 to 10000"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;INTERVAL=x", "INTERVAL: 'X'"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;INTERVAL=1;INTERVAL=2", "given twice"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;BYEASTER=0", "'BYEASTER' is not supported"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;BYMONTHDAY=0", "BYMONTHDAY has no 0"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;BYDAY=2MO", "with a number needs"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=MONTHLY;BYDAY=XX", "'XX' is no day"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=WEEKLY;BYMONTHDAY=1", "makes no sense with FREQ=WEE"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;BYSETPOS=1", "needs another BY part"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=MINUTELY;BYSECOND=0,30", "takes one second"),
        ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY;UNTIL=20270101", "UNTIL: '20270101' is no time"),
        ("DTSTART:20260101T000000Z nonsense", "no line of a rule"),
        ("DTSTART;TZID:20260101T000000 RRULE:FREQ=DAILY", "parameters of 'DTSTART'"),
        ("x" * 30_000, "longer than"),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_refused_and_the_wrong_part_is_named(text: str, words: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        read_timing("ical", text, "UTC")
    assert words in str(raised.value)
