"""The manager of schedules on a real database whose clock is set by the test."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text

from dispatcher.broker.messages import Manager
from dispatcher.db import schedule_rows
from dispatcher.settings import Settings
from schedulers.passes import due_schedules
from schedulers.passes.manager_pass import Applied, Runner
from schedulers.passes.windows import walk
from tests import templates, workflows
from tests.passes import another, lease_row, runner
from tests.racing import at_once
from tests.schedules import launches_of, make_schedule, make_target, schedule_row, set_clock

SCHEDULES = Manager.SCHEDULES
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def stopped_clock(engine: Engine) -> None:
    set_clock(engine, NOON + timedelta(seconds=3))


def make(engine: Engine, **columns: Any) -> int:
    """A schedule that is due at noon, of a template of its own."""
    with engine.begin() as connection:
        return make_schedule(connection, make_target(connection), **{"next_run": NOON} | columns)


def due(engine: Engine, schedule_id: int) -> list[datetime]:
    return [row.due for row in launches_of(engine, schedule_id)]


def jobs(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(
            connection.scalar(text("SELECT count(*) FROM job WHERE launch_type = 'scheduled'")) or 0
        )


def test_a_due_schedule_launches_its_template_and_moves_on(engine: Engine, running: Runner) -> None:
    schedule = make(engine, name="nightly")
    assert running.trigger(SCHEDULES) == "complete"
    (launch,) = launches_of(engine, schedule)
    assert (launch.due, launch.error, launch.kind) == (NOON, "", "playbook")
    assert (launch.launched_by, launch.launch_type) == ("schedule nightly", "scheduled")
    row = schedule_row(engine, schedule)
    assert (row.next_run, row.last_run, row.enabled) == (NOON + HOUR, NOON, True)


def test_nothing_is_launched_before_its_time_and_a_pass_that_finds_nothing_is_fruitless(
    engine: Engine, running: Runner
) -> None:
    schedule = make(engine, next_run=NOON + HOUR)
    running.trigger(SCHEDULES)
    assert running.trigger(SCHEDULES) == "fruitless"
    set_clock(engine, NOON + HOUR)
    assert running.trigger(SCHEDULES) == "complete", "the clock alone makes it due"
    assert due(engine, schedule) == [NOON + HOUR]


def test_the_right_manager_is_woken_for_what_was_launched(
    engine: Engine, settings: Settings
) -> None:
    make(engine)
    applied: list[Applied] = []

    class Watched(due_schedules.DueSchedules):
        def apply(self, connection: Any, decisions: Sequence[Any]) -> Applied:
            applied.append(super().apply(connection, decisions))
            return applied[-1]

    with runner(settings, {SCHEDULES: lambda under_way: walk(under_way, Watched())}) as made:
        made.trigger(SCHEDULES)
    assert [each.owed.wakes for each in applied] == [frozenset({Manager.TASK})]


def test_every_kind_of_target_is_launched(engine: Engine, running: Runner) -> None:
    with engine.begin() as connection:
        project = templates.make_project(connection)
        inventory = templates.make_inventory(connection)
        targets = {
            "job_template": (make_target(connection), "playbook"),
            "workflow_job_template": (workflows.make_template(connection), "workflow"),
            "project": (project, "project_update"),
            "inventory_source": (
                templates.make_source(connection, inventory, project),
                "inventory_update",
            ),
        }
        made = {
            make_schedule(connection, target, launches=launches, next_run=NOON): kind
            for launches, (target, kind) in targets.items()
        }
    running.trigger(SCHEDULES)
    for schedule, kind in made.items():
        (launch,) = launches_of(engine, schedule)
        assert (launch.kind, launch.error, launch.launch_type) == (kind, "", "scheduled")


def test_prompts_of_a_schedule_reach_its_jobs(engine: Engine, running: Runner) -> None:
    with engine.begin() as connection:
        template = make_target(connection, ask_limit_on_launch=True)
        schedule = make_schedule(
            connection, template, prompts={"limit": "web1", "forks": 9}, next_run=NOON
        )
    running.trigger(SCHEDULES)
    with engine.connect() as connection:
        row = connection.execute(
            text("SELECT limit_pattern, forks FROM job_input WHERE job_id = :id"),
            {"id": launches_of(engine, schedule)[0].job_id},
        ).one()
    assert tuple(row) == ("web1", 0), "forks are not asked for"


# -- exactly once


def test_however_many_managers_and_beats_there_are_a_due_time_is_launched_once(
    engine: Engine, settings: Settings
) -> None:
    made = [make(engine) for _ in range(5)]
    with runner(settings) as first, runner(settings) as second, runner(settings) as third:
        racing = [first, another(second), another(third)]
        for hour in range(4):
            set_clock(engine, NOON + hour * HOUR)
            outcomes = at_once([lambda r=r: r.trigger(SCHEDULES) for r in racing])  # type: ignore[misc]
            assert not [each for each in outcomes if isinstance(each, Exception)]
            first.trigger(SCHEDULES)
    for schedule in made:
        assert due(engine, schedule) == [NOON + n * HOUR for n in range(4)]
    assert jobs(engine) == 20


def test_a_manager_that_lost_its_lease_launches_nothing(engine: Engine, settings: Settings) -> None:
    schedule = make(engine)
    with runner(settings) as other:

        class Overtaken(due_schedules.DueSchedules):
            """Frozen between its plan and its writes, while another one does the work."""

            def plan(self, items: Sequence[Any]) -> Any:
                planned = super().plan(items)
                with engine.begin() as connection:
                    connection.execute(text("UPDATE manager_lease SET expires_at = '2000-01-01'"))
                another(other).trigger(SCHEDULES)
                return planned

        with runner(settings, {SCHEDULES: lambda under_way: walk(under_way, Overtaken())}) as made:
            assert made.trigger(SCHEDULES) == "lease_lost"
    assert due(engine, schedule) == [NOON]
    assert jobs(engine) == 1


def test_a_due_time_that_was_launched_before_is_not_launched_again(
    engine: Engine, running: Runner
) -> None:
    """Whoever sets ``next_run`` back, or a clock that is set back, repeats nothing."""
    schedule = make(engine)
    running.trigger(SCHEDULES)
    with engine.begin() as connection:
        connection.execute(text("UPDATE schedule SET next_run = :noon"), {"noon": NOON})
    running.trigger(SCHEDULES)
    assert (due(engine, schedule), jobs(engine)) == ([NOON], 1)
    assert schedule_row(engine, schedule).next_run == NOON + HOUR


def test_a_pass_that_fails_before_its_commit_has_launched_nothing_and_the_next_one_does(
    engine: Engine, running: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = make(engine)
    move_on = schedule_rows.move_on

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(schedule_rows, "move_on", killed)
    with pytest.raises(KeyboardInterrupt):
        running.trigger(SCHEDULES)
    assert (due(engine, schedule), jobs(engine)) == ([], 0)
    monkeypatch.setattr(schedule_rows, "move_on", move_on)
    with engine.begin() as connection:
        connection.execute(text("UPDATE manager_lease SET expires_at = '2000-01-01'"))
    running.trigger(SCHEDULES)
    assert (due(engine, schedule), jobs(engine)) == ([NOON], 1)


def test_a_schedule_that_is_changed_while_it_is_planned_is_left_to_the_next_pass(
    engine: Engine, settings: Settings
) -> None:
    schedule = make(engine)

    class Changed(due_schedules.DueSchedules):
        def plan(self, items: Sequence[Any]) -> Any:
            with engine.begin() as connection:
                connection.execute(text("UPDATE schedule SET enabled = false"))
            return super().plan(items)

    with runner(settings, {SCHEDULES: lambda under_way: walk(under_way, Changed())}) as made:
        made.trigger(SCHEDULES)
    assert (due(engine, schedule), jobs(engine)) == ([], 0)


# -- outages


@pytest.mark.parametrize(
    ("misfire", "limit", "hours"),
    [("skip", 10, []), ("once", 10, [5]), ("all", 3, [3, 4, 5]), ("all", 50, [0, 1, 2, 3, 4, 5])],
)
def test_what_an_outage_missed_is_made_up_for_as_the_schedule_says(
    engine: Engine, running: Runner, misfire: str, limit: int, hours: list[int]
) -> None:
    schedule = make(engine, misfire=misfire, misfire_limit=limit)
    set_clock(engine, NOON + 5 * HOUR + 20 * MINUTE)
    running.trigger(SCHEDULES)
    assert due(engine, schedule) == [NOON + n * HOUR for n in hours]
    assert jobs(engine) == len(hours)
    assert schedule_row(engine, schedule).next_run == NOON + 6 * HOUR
    assert running.trigger(SCHEDULES) in ("complete", "fruitless")
    assert jobs(engine) == len(hours), "once"


def test_a_burst_after_a_long_outage_is_launched_in_several_passes(
    engine: Engine, running: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedulers.core.plan_schedules.MOST_LAUNCHES", 4)
    for _ in range(4):
        make(engine, misfire="all", misfire_limit=3)
    set_clock(engine, NOON + 90 * HOUR)
    running.trigger(SCHEDULES)
    assert jobs(engine) == 12


# -- one bad one never stops the others


BAD: dict[str, dict[str, Any]] = {
    "no such day": {"rule": "0 0 30 2 *"},
    "no rule": {"rule": "whenever"},
    "no zone": {"time_zone": "Mars/Base"},
    "contradiction": {
        "rule_kind": "ical",
        "rule": "DTSTART:20200101T000000Z RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
    },
    "target gone": {"template_id": 999_999},
}


@pytest.mark.parametrize("bad", BAD)
def test_a_schedule_that_cannot_go_on_is_disabled_with_a_message_and_no_other(
    engine: Engine, running: Runner, bad: str
) -> None:
    before = make(engine)
    broken = make(engine)
    after = make(engine)
    with engine.begin() as connection:
        for name, value in BAD[bad].items():
            connection.execute(
                text(f"UPDATE schedule SET {name} = :value WHERE id = :id"),
                {"value": value, "id": broken},
            )
    running.trigger(SCHEDULES)
    row = schedule_row(engine, broken)
    assert (row.enabled, row.next_run) == (False, None)
    assert row.disabled_reason
    assert due(engine, broken) == []
    for schedule in (before, after):
        assert due(engine, schedule) == [NOON]
        assert schedule_row(engine, schedule).enabled


def test_the_message_says_what_was_deleted(engine: Engine, running: Runner) -> None:
    with engine.begin() as connection:
        schedule = make_schedule(connection, 4711, next_run=NOON)
    running.trigger(SCHEDULES)
    assert schedule_row(engine, schedule).disabled_reason == "job template 4711 was deleted"


def test_a_target_that_is_deleted_while_its_launch_is_planned_disables_the_schedule(
    engine: Engine, settings: Settings
) -> None:
    schedule, other = make(engine), make(engine)
    template = schedule_row(engine, schedule).template_id

    class Deleted(due_schedules.DueSchedules):
        def plan(self, items: Sequence[Any]) -> Any:
            with engine.begin() as connection:
                connection.execute(
                    text("DELETE FROM job_template WHERE id = :id"), {"id": template}
                )
            return super().plan(items)

    with runner(settings, {SCHEDULES: lambda under_way: walk(under_way, Deleted())}) as made:
        made.trigger(SCHEDULES)
    row = schedule_row(engine, schedule)
    assert (row.enabled, row.next_run) == (False, None)
    assert row.disabled_reason == f"job template {template} was deleted"
    assert due(engine, other) == [NOON]


def test_a_schedule_whose_handling_raises_is_disabled_and_the_others_go_on(
    engine: Engine, running: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (make(engine) for _ in range(3))
    take = schedule_rows.take_due_times

    def raising(connection: Any, wanted: Sequence[Any]) -> Any:
        if second in {schedule_id for schedule_id, _ in wanted}:
            raise ZeroDivisionError("boom")
        return take(connection, wanted)

    monkeypatch.setattr(schedule_rows, "take_due_times", raising)
    running.trigger(SCHEDULES)
    assert "boom" in schedule_row(engine, second).disabled_reason
    assert due(engine, first) == due(engine, third) == [NOON]
    assert due(engine, second) == []


def test_a_launch_that_is_refused_is_noted_and_the_schedule_goes_on(
    engine: Engine, running: Runner
) -> None:
    """A template without an inventory can be mended; a schedule that stopped would be forgotten."""
    with engine.begin() as connection:
        template = templates.make_template(connection, None, None)
        schedule = make_schedule(connection, template, next_run=NOON)
    other = make(engine)
    running.trigger(SCHEDULES)
    (launch,) = launches_of(engine, schedule)
    assert launch.job_id is None
    assert "has no inventory" in launch.error
    row = schedule_row(engine, schedule)
    assert (row.enabled, row.next_run) == (True, NOON + HOUR)
    assert due(engine, other) == [NOON]


def test_a_schedule_that_is_over_stays_as_it_is(engine: Engine, running: Runner) -> None:
    schedule = make(engine, ends=NOON + MINUTE)
    running.trigger(SCHEDULES)
    row = schedule_row(engine, schedule)
    assert (due(engine, schedule), row.next_run, row.enabled) == ([NOON], None, True)


def test_the_record_of_launches_does_not_grow_for_ever(engine: Engine, running: Runner) -> None:
    schedule = make(engine)
    with engine.begin() as connection:
        for days in (200, 91, 89):
            connection.execute(
                text("INSERT INTO schedule_launch (schedule_id, due) VALUES (:id, :due)"),
                {"id": schedule, "due": NOON - timedelta(days=days)},
            )
    running.trigger(SCHEDULES)
    assert due(engine, schedule) == [NOON - timedelta(days=89), NOON]


def test_many_schedules_due_at_once_are_launched_in_one_run(
    engine: Engine, running: Runner
) -> None:
    with engine.begin() as connection:
        template = make_target(connection)
        for _ in range(700):
            make_schedule(connection, template, next_run=NOON)
    running.trigger(SCHEDULES)
    assert jobs(engine) == 700
    assert lease_row(engine, SCHEDULES).window_jobs == []
