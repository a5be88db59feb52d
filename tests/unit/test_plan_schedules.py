"""The plan of due schedules: each by itself, in bounded work."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from schedulers.core import plan_schedules as planner
from schedulers.core.plan_schedules import DisableSchedule, DueSchedule, LaunchDue, plan_schedules

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURLY = DueSchedule(
    id=1, rule_kind="cron", rule="0 * * * *", time_zone="UTC", starts=None, ends=None,
    misfire="once", misfire_limit=10, next_run=NOON, target_exists=True, target="project 3",
)  # fmt: skip


def no_time() -> float:
    return 0.0


def test_a_schedule_moves_on_past_now_whatever_was_missed() -> None:
    for late in (timedelta(), timedelta(seconds=40), 3 * HOUR, 900 * HOUR):
        (decision,) = plan_schedules([HOURLY], NOON + late, cpu=no_time)
        assert isinstance(decision, LaunchDue)
        assert decision.observed == NOON
        assert decision.next_run is not None
        assert NOON + late < decision.next_run <= NOON + late + HOUR
        assert len(decision.times) == 1
        assert NOON <= decision.times[0] <= NOON + late


def test_the_last_due_time_of_a_rule_that_ends_is_launched_and_no_other_follows() -> None:
    ending = replace(HOURLY, ends=NOON + timedelta(minutes=30))
    (decision,) = plan_schedules([ending], NOON + 5 * HOUR, cpu=no_time)
    assert decision == LaunchDue(1, NOON, (NOON,), None)


def test_a_bad_rule_disables_its_own_schedule_and_the_order_does_not_matter() -> None:
    schedules = [
        HOURLY,
        replace(HOURLY, id=2, rule="0 0 30 2 *"),
        replace(HOURLY, id=3, time_zone="Nowhere"),
        replace(HOURLY, id=4, target_exists=False),
        replace(HOURLY, id=5),
    ]
    plan = plan_schedules(schedules, NOON, cpu=no_time)
    assert {d.schedule_id for d in plan if isinstance(d, LaunchDue)} == {1, 5}
    reasons = {d.schedule_id: d.reason for d in plan if isinstance(d, DisableSchedule)}
    assert reasons[2].startswith("the rule cannot be evaluated: ")
    assert "Nowhere" in reasons[3]
    assert reasons[4] == "project 3 was deleted"
    assert plan[::-1] == plan_schedules(schedules[::-1], NOON, cpu=no_time)


def test_a_plan_that_takes_long_is_cut_but_decides_about_one_at_least() -> None:
    ticks = iter(range(0, 1000, 3))
    schedules = [replace(HOURLY, id=n) for n in range(1, 6)]
    plan = plan_schedules(schedules, NOON, cpu=lambda: float(next(ticks)))
    assert [d.schedule_id for d in plan] == [1]


def test_a_plan_has_a_bounded_number_of_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "MOST_LAUNCHES", 7)
    schedules = [replace(HOURLY, id=n, misfire="all", misfire_limit=3) for n in range(1, 9)]
    plan = plan_schedules(schedules, NOON + 50 * HOUR, cpu=no_time)
    assert sum(len(d.times) for d in plan if isinstance(d, LaunchDue)) == 9
