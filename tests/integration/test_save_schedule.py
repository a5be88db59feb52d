"""Schedules are saved with everything checked; enabled and disabled; never with a missed past."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text

from dispatcher.actions.save_schedule import (
    change_schedule,
    create_schedule,
    delete_schedule,
    enable_schedule,
)
from dispatcher.errors import InvalidRequest, NotFound
from tests import templates, workflows
from tests.schedules import make_schedule, make_target, schedule_row, set_clock

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def stopped_clock(engine: Engine) -> None:
    set_clock(engine, NOON)


def values(template: int, **more: Any) -> dict[str, Any]:
    return {
        "name": "nightly",
        "launches": "job_template",
        "template_id": template,
        "rule_kind": "cron",
        "rule": "30 2 * * *",
    } | more


def create(engine: Engine, **more: Any) -> int:
    with engine.begin() as connection:
        return create_schedule(connection, values(make_target(connection), **more))


def refused(engine: Engine, **more: Any) -> Mapping[str, list[str]]:
    with pytest.raises(InvalidRequest) as raised:
        create(engine, **more)
    return raised.value.fields


def test_a_saved_schedule_knows_when_it_is_due_and_whose_it_is(engine: Engine) -> None:
    row = schedule_row(engine, create(engine, time_zone="Europe/Berlin"))
    assert row.next_run == datetime(2026, 6, 2, 0, 30, tzinfo=UTC)
    assert (row.enabled, row.misfire, row.time_zone) == (True, "once", "Europe/Berlin")
    with engine.connect() as connection:
        assert row.organization_id == connection.scalar(text("SELECT id FROM organization"))


def test_the_zone_of_an_icalendar_rule_is_the_schedules(engine: Engine) -> None:
    rule = "DTSTART;TZID=America/New_York:20260101T023000 RRULE:FREQ=DAILY"
    schedule = create(engine, rule_kind="ical", rule=rule)
    row = schedule_row(engine, schedule)
    assert (row.time_zone, row.next_run.hour) == ("America/New_York", 6)
    with engine.begin() as connection:
        change_schedule(connection, schedule, {"rule": "DTSTART:20260101T023000Z RRULE:FREQ=DAILY"})
    row = schedule_row(engine, schedule)
    assert (row.time_zone, row.next_run.hour) == ("UTC", 2)
    fields = refused(engine, rule_kind="ical", rule=rule, time_zone="Europe/Berlin")
    assert fields == {"time_zone": ["the rule itself names America/New_York"]}


def test_schedules_start_when_they_are_told_to(engine: Engine) -> None:
    start = NOON + timedelta(days=40)
    assert schedule_row(engine, create(engine, starts=start)).next_run >= start


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ({"rule": "0 0 30 2 *"}, "rule", "day-of-month"),
        ({"rule": ""}, "rule", "a text is required"),
        ({"rule": 7}, "rule", "a text is required"),
        ({"rule_kind": "iso"}, "rule_kind", "cron, ical"),
        ({"rule_kind": "ical"}, "rule", "no line of a rule"),
        ({"time_zone": "Mars/Base"}, "time_zone", "no time zone"),
        ({"ends": NOON - HOUR}, "rule", "never due again"),
        ({"starts": NOON, "ends": NOON + HOUR}, "rule", "no time between"),
        ({"starts": "tomorrow"}, "starts", "a time is required"),
        ({"starts": NOON.replace(tzinfo=None)}, "starts", "with a zone"),
        ({"misfire": "twice"}, "misfire", "skip"),
        ({"misfire_limit": 101}, "misfire_limit", "100"),
        ({"template_id": 4711}, "template", "there is no job template 4711"),
        ({"launches": "playbook"}, "launches", "job_template"),
        ({"prompts": {"limit": "web1"}}, "prompts", "limit: the job template does not ask for it"),
        ({"prompts": {"color": 1}}, "prompts", "color: a job template has no such prompt"),
        ({"prompts": []}, "prompts", "a mapping is required"),
        ({"name": " "}, "name", "must not be empty"),
        ({"next_run": NOON}, "next_run", "there is no such field"),
    ],
)
def test_what_is_wrong_is_refused_by_field(
    engine: Engine, more: dict[str, Any], field: str, words: str
) -> None:
    fields = refused(engine, **more)
    assert list(fields) == [field]
    assert words in " ".join(fields[field])


def test_prompts_are_checked_against_what_the_template_asks_for(engine: Engine) -> None:
    with engine.begin() as connection:
        template = make_target(
            connection, ask_verbosity_on_launch=True, ask_inventory_on_launch=True
        )
        create_schedule(connection, values(template, prompts={"verbosity": 3}))
        for prompts, words in (
            ({"verbosity": 9}, "verbosity: "),
            ({"inventory": 999}, "inventory: there is no inventory 999"),
        ):
            with pytest.raises(InvalidRequest) as raised:
                create_schedule(connection, values(template, prompts=prompts))
            assert raised.value.fields["prompts"][0].startswith(words)


def test_every_kind_of_target_can_be_scheduled(engine: Engine) -> None:
    with engine.begin() as connection:
        project = templates.make_project(connection)
        inventory = templates.make_inventory(connection)
        workflow = workflows.make_template(connection, ask_limit_on_launch=True)
        for number, (launches, target, prompts) in enumerate(
            [
                ("project", project, {}),
                ("inventory_source", templates.make_source(connection, inventory, project), {}),
                ("workflow_job_template", workflow, {"limit": "web1"}),
            ]
        ):
            made = values(target, launches=launches, prompts=prompts, name=f"s{number}")
            assert create_schedule(connection, made)
        with pytest.raises(InvalidRequest) as raised:
            create_schedule(
                connection, values(project, launches="project", prompts={"limit": "x"}, name="s9")
            )
    assert raised.value.fields == {"prompts": ["limit: a project has no such prompt"]}


def test_names_are_unique_in_an_organization(engine: Engine) -> None:
    create(engine)
    assert list(refused(engine)) == ["name"]


def test_a_schedule_that_is_enabled_again_begins_now(engine: Engine) -> None:
    schedule = create(engine, rule="0 * * * *")
    with engine.begin() as connection:
        enable_schedule(connection, schedule, False)
    assert schedule_row(engine, schedule).next_run is None
    set_clock(engine, NOON + 90 * HOUR)
    with engine.begin() as connection:
        enable_schedule(connection, schedule)
    row = schedule_row(engine, schedule)
    assert (row.enabled, row.next_run) == (True, NOON + 91 * HOUR), "nothing was missed"


def test_a_schedule_that_was_disabled_by_itself_can_be_mended(engine: Engine) -> None:
    schedule = create(engine)
    with engine.begin() as connection:
        connection.execute(
            text(
                "UPDATE schedule SET enabled = false, next_run = NULL, rule = 'whenever',"
                " disabled_reason = 'the rule cannot be evaluated'"
            )
        )
    with engine.begin() as connection, pytest.raises(InvalidRequest):
        enable_schedule(connection, schedule)
    with engine.begin() as connection:
        change_schedule(connection, schedule, {"enabled": True, "rule": "@hourly"})
    row = schedule_row(engine, schedule)
    assert (row.enabled, row.disabled_reason, row.next_run) == (True, "", NOON + HOUR)


def test_a_schedule_whose_target_is_gone_cannot_be_enabled(engine: Engine) -> None:
    with engine.begin() as connection:
        schedule = make_schedule(connection, 4711, enabled=False)
    with engine.begin() as connection, pytest.raises(InvalidRequest) as raised:
        enable_schedule(connection, schedule)
    assert list(raised.value.fields) == ["template"]


def test_a_change_of_something_else_does_not_move_the_next_due_time(engine: Engine) -> None:
    schedule = create(engine, rule="0 * * * *")
    set_clock(engine, NOON + 3 * HOUR)
    with engine.begin() as connection:
        change_schedule(connection, schedule, {"description": "of the shop", "misfire": "all"})
    assert schedule_row(engine, schedule).next_run == NOON + HOUR, "missed, not forgotten"
    with engine.begin() as connection:
        change_schedule(connection, schedule, {"rule": "15 * * * *"})
    assert schedule_row(engine, schedule).next_run == NOON + 3 * HOUR + timedelta(minutes=15)


def test_what_a_schedule_launches_cannot_be_changed(engine: Engine) -> None:
    schedule = create(engine)
    with engine.begin() as connection, pytest.raises(InvalidRequest) as raised:
        change_schedule(connection, schedule, {"template_id": 1})
    assert list(raised.value.fields) == ["template"]


def test_a_schedule_that_is_not_there_is_not_found(engine: Engine) -> None:
    with engine.begin() as connection:
        for act in (enable_schedule, delete_schedule):
            with pytest.raises(NotFound):
                act(connection, 99)
        schedule = create_schedule(connection, values(make_target(connection)))
        delete_schedule(connection, schedule)
    with pytest.raises(NotFound), engine.begin() as connection:
        delete_schedule(connection, schedule)
