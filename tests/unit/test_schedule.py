"""When schedules are due: bounds, rules that are never due, bounded work, missed times."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.domain.schedule import (
    ScheduleError,
    Timing,
    check,
    due_times,
    newest,
    next_after,
    preview,
    read_timing,
)

NOW = datetime(2026, 5, 4, 12, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MIDNIGHT = "DTSTART:20260101T000000Z RRULE:"


def cron(expression: str, **bounds: datetime) -> Timing:
    return read_timing("cron", expression, "UTC", **bounds)


def clock(times: list[datetime]) -> list[str]:
    return [f"{each:%d %H:%M}" for each in times]


# -- bounds


def test_nothing_is_due_before_the_start_and_after_the_end() -> None:
    timing = cron("0 * * * *", starts=NOW + 30 * MINUTE, ends=NOW.replace(hour=14, second=0))
    assert clock(preview(timing, NOW - timedelta(days=3), 9)) == ["04 13:00", "04 14:00"]
    assert next_after(timing, NOW.replace(hour=14, second=0)) is None


def test_a_start_that_is_a_due_time_is_due_itself() -> None:
    noon = NOW.replace(second=0)
    assert next_after(cron("0 * * * *", starts=noon), noon - timedelta(days=1)) == noon
    assert next_after(cron("0 * * * *"), noon) == noon + timedelta(hours=1), "after, not at"


def test_nicknames_and_names_of_days_are_understood() -> None:
    assert clock(preview(cron("@daily"), NOW, 2)) == ["05 00:00", "06 00:00"]
    assert clock(preview(cron("30 6 * * mon-fri"), NOW, 5)) == [
        "05 06:30", "06 06:30", "07 06:30", "08 06:30", "11 06:30",
    ]  # fmt: skip


# -- refused


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "a text is required"),
        ("* * * *", "five fields"),
        ("* * * * * *", "(6 given)"),
        ("@reboot", "five fields"),
        ("61 * * * *", "the field minute"),
        ("* 25 * * *", "the field hour"),
        ("*/0 * * * *", "the field minute"),
        ("5-1 * * * *", "the field minute"),
        ("* * * FOO *", "the field month"),
        ("0 0 30 2 *", "the field day-of-month"),
        ("0 0 31 4,6 *", "the field day-of-month"),
        ("\x00 * * * *", "a text is required"),
        ("1," * 200 + "1 * * * *", "longer than"),
    ],
)
def test_a_wrong_expression_is_refused_in_words(expression: str, words: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        cron(expression)
    assert words in str(raised.value)


@settings(max_examples=200)
@given(st.text(alphabet="0123456789*/,-#LW MONFRIJAN@²\u0663", max_size=30))
def test_no_text_is_more_than_refused(text: str) -> None:
    try:
        next_after(cron(text), NOW)
    except ScheduleError:
        pass


@pytest.mark.parametrize(
    "name",
    ["Mars/Base", "", "../../etc/passwd", "America", "localtime", "posixrules", "right/UTC", "x" * 99,
     "Europe/Berlin\n", None],
)  # fmt: skip
def test_a_zone_that_does_not_exist_is_refused(name: object) -> None:
    with pytest.raises(ScheduleError) as raised:
        read_timing("cron", "* * * * *", name)  # type: ignore[arg-type]
    assert raised.value.field == "time_zone"


def test_bounds_that_exclude_everything_are_refused() -> None:
    with pytest.raises(ScheduleError) as raised:
        cron("* * * * *", starts=NOW, ends=NOW - MINUTE)
    assert raised.value.field == "ends"
    with pytest.raises(ScheduleError) as raised:
        cron("* * * * *", starts=NOW.replace(tzinfo=None))
    assert raised.value.field == "starts"
    with pytest.raises(ScheduleError, match="no time between"):
        check(cron("0 0 1 1 *", starts=NOW, ends=NOW + timedelta(days=9)))
    with pytest.raises(ScheduleError, match="no time between"):
        check(read_timing("ical", MIDNIGHT + "FREQ=DAILY;UNTIL=20250101T000000Z", "UTC"))


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYYEARDAY=1;BYMONTH=6",
        "FREQ=MONTHLY;BYMONTHDAY=31;BYMONTH=4,6,9,11",
        "FREQ=YEARLY;BYMONTH=1;BYDAY=6MO",
        "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=30",
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=7",
        "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=300",
        "FREQ=YEARLY;BYHOUR=" + ",".join(map(str, range(24))) + ";BYMINUTE="
        + ",".join(map(str, range(60))) + ";BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=1",
        "FREQ=YEARLY;BYYEARDAY=100;COUNT=10000",
    ],
)  # fmt: skip
def test_a_rule_that_is_never_due_is_found_out_in_bounded_work(rule: str) -> None:
    started = time.thread_time()
    timing = read_timing("ical", MIDNIGHT + rule, "UTC")
    with pytest.raises(ScheduleError):
        check(timing)
    assert time.thread_time() - started < 2, "it takes dateutil minutes, or for ever"


def test_a_rule_whose_next_time_the_calendar_does_not_reach_is_over() -> None:
    timing = read_timing("ical", MIDNIGHT + "FREQ=YEARLY;INTERVAL=999999;BYMONTH=12", "UTC")
    assert clock(preview(timing, NOW, 5)) == ["01 00:00"], "in this December, and no other"
    assert clock(preview(cron("0 0 1 6 *", ends=NOW + timedelta(days=40)), NOW, 5)) == ["01 00:00"]


def test_rare_dates_are_found() -> None:
    leap = read_timing("ical", MIDNIGHT + "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "UTC")
    assert [each.year for each in preview(leap, NOW, 3)] == [2028, 2032, 2036]
    assert [each.year for each in preview(cron("0 0 29 2 *"), NOW, 3)] == [2028, 2032, 2036]
    friday = read_timing("ical", MIDNIGHT + "FREQ=DAILY;BYMONTHDAY=13;BYDAY=FR", "UTC")
    assert f"{next_after(friday, NOW):%Y-%m-%d}" == "2026-11-13"


def test_a_rule_that_began_long_ago_is_answered_without_counting_from_there() -> None:
    timing = read_timing("ical", "DTSTART:19700101T000000Z RRULE:FREQ=MINUTELY", "UTC")
    started = time.thread_time()
    assert next_after(timing, NOW) == NOW.replace(minute=1, second=0)
    assert time.thread_time() - started < 0.5


# -- missed


def test_the_newest_due_times_are_found_without_counting_all_of_them() -> None:
    every_minute = cron("* * * * *")
    long_ago = NOW - timedelta(days=5 * 365)
    started = time.thread_time()
    assert clock(newest(every_minute, long_ago, NOW, 3)) == ["04 11:58", "04 11:59", "04 12:00"]
    over = cron("* * * * *", ends=NOW - timedelta(days=900))
    assert len(newest(over, long_ago, NOW, 100)) == 100
    assert time.thread_time() - started < 3, "2.6 million minutes"


@settings(max_examples=25)
@given(
    st.sampled_from(["* * * * *", "*/7 9-17 * * 1-5", "0 3 * * *", "5 0 1 * *", "0 0 * * 0"]),
    st.integers(1, 20),
    st.integers(0, 600),
)
def test_the_newest_are_the_last_of_all(expression: str, count: int, minutes: int) -> None:
    timing = cron(expression)
    every = [each for each in preview(timing, NOW - minutes * MINUTE, minutes + 1) if each <= NOW]
    assert newest(timing, NOW - minutes * MINUTE, NOW, count) == every[-count:]


def test_what_is_due_now_is_launched_under_every_policy() -> None:
    noon = NOW.replace(second=0)
    for policy in ("skip", "once", "all"):
        assert due_times(cron("0 * * * *"), noon, NOW, policy, 5) == [noon]
        assert due_times(cron("0 * * * *"), noon + MINUTE, NOW, policy, 5) == []


@pytest.mark.parametrize(
    ("policy", "limit", "launched"),
    [
        ("skip", 5, []),
        ("once", 5, ["04 11:10"]),
        ("all", 2, ["04 10:10", "04 11:10"]),
        ("all", 5, ["04 08:10", "04 09:10", "04 10:10", "04 11:10"]),
    ],
)
def test_missed_times_are_launched_as_the_policy_says(
    policy: str, limit: int, launched: list[str]
) -> None:
    next_run = NOW.replace(hour=8, minute=10, second=0)
    assert clock(due_times(cron("10 * * * *"), next_run, NOW, policy, limit)) == launched


def test_after_an_outage_one_launch_is_enough_for_once_when_one_is_due_anyway() -> None:
    next_run = NOW.replace(hour=8, minute=0, second=0)
    due = {p: due_times(cron("0 * * * *"), next_run, NOW, p, 2) for p in ("skip", "once", "all")}
    assert clock(due["skip"]) == clock(due["once"]) == ["04 12:00"]
    assert clock(due["all"]) == ["04 11:00", "04 12:00"], "at most two in all"


def test_two_times_of_the_last_minute_were_not_missed() -> None:
    now = NOW.replace(minute=1, second=0)
    for policy in ("skip", "once"):
        due = due_times(cron("* * * * *"), now - 20 * MINUTE, now, policy, 5)
        assert clock(due) == ["04 12:00", "04 12:01"]
