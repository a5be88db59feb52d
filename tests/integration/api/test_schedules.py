"""``schedules/``: made, changed, tried; what can never be due is refused by the field that was sent."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, insert, text

from dispatcher.db import tables as t
from tests.api_server import Api
from tests.factories import default_organization, make_job
from tests.integration.api.conftest import Shared
from tests.templates import make_inventory, make_project, make_source, make_template, updated
from tests.workflows import make_template as make_workflow

SCHEDULES = "/api/v2/schedules/"
DAILY = "DTSTART;TZID=Europe/Berlin:20260101T023000 RRULE:FREQ=DAILY"


@pytest.fixture(scope="module")
def api(shared: Shared) -> Api:
    return shared.api


@pytest.fixture(scope="module")
def engine(shared: Shared) -> Engine:
    return shared.engine


@pytest.fixture(scope="module")
def ground(shared: Shared) -> dict[str, int]:
    with shared.engine.begin() as connection:
        project = make_project(connection, name="tree")
        updated(connection, project)
        inventory = make_inventory(connection, ["a"])
        return {
            "project": project,
            "source": make_source(connection, inventory, project),
            "template": make_template(
                connection,
                project,
                inventory,
                name="deploy",
                ask_limit_on_launch=True,
                ask_tags_on_launch=True,
                ask_variables_on_launch=True,
            ),
            "workflow": make_workflow(connection, "release"),
            "job": make_job(connection),
        }


def made(api: Api, ground: dict[str, int], **fields: Any) -> dict[str, Any]:
    body = {"name": "nightly", "unified_job_template": ground["template"], "rrule": DAILY}
    answer = api.http.post(SCHEDULES, json=body | fields)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_schedule_is_made_changed_disabled_enabled_and_deleted(
    api: Api, ground: dict[str, int]
) -> None:
    schedule = made(api, ground, limit="a", job_tags="x, y", extra_data="b: 2")
    assert (schedule["rrule"], schedule["cron"], schedule["timezone"]) == (
        DAILY,
        "",
        "Europe/Berlin",
    )
    assert (schedule["unified_job_type"], schedule["limit"], schedule["job_tags"]) == (
        "job",
        "a",
        "x,y",
    )
    assert (schedule["extra_data"], schedule["enabled"]) == ({"b": 2}, True)
    assert schedule["next_run"] is not None
    assert schedule["summary_fields"]["unified_job_template"]["name"] == "deploy"
    assert api.http.get(schedule["url"]).json() == schedule
    cron = api.http.patch(
        schedule["url"],
        json={
            "cron": "30 2 * * *",
            "timezone": "Asia/Tokyo",
            "limit": None,
            "starts": "2027-01-01T00:00:00Z",
        },
    )
    assert cron.status_code == 200, cron.text
    changed = cron.json()
    assert (changed["rrule"], changed["cron"]) == ("", "30 2 * * *")
    assert (changed["next_run"], changed["limit"], changed["job_tags"]) == (
        "2027-01-01T17:30:00Z",
        None,
        "x,y",
    )
    off = api.http.patch(schedule["url"], json={"enabled": False}).json()
    assert (off["enabled"], off["next_run"]) == (False, None)
    on = api.http.patch(schedule["url"], json={"enabled": True}).json()
    assert (on["enabled"], on["next_run"]) == (True, "2027-01-01T17:30:00Z")
    same = {"name": "nightly", "unified_job_template": ground["template"]}
    assert api.http.put(schedule["url"], json=same).status_code == 200
    other = {"name": "nightly", "unified_job_template": 999}
    assert list(api.http.put(schedule["url"], json=other).json()) == ["unified_job_template"]
    assert api.http.delete(schedule["url"]).status_code == 204
    assert api.http.get(schedule["url"]).status_code == 404


def test_whatever_can_be_launched_has_its_schedules(api: Api, ground: dict[str, int]) -> None:
    for path, kind in (
        (f"/api/v2/job_templates/{ground['template']}/", "job"),
        (f"/api/v2/workflow_job_templates/{ground['workflow']}/", "workflow_job"),
        (f"/api/v2/projects/{ground['project']}/", "project_update"),
        (f"/api/v2/inventory_sources/{ground['source']}/", "inventory_update"),
    ):
        body = {"name": f"of {kind}", "cron": "@daily"}
        answer = api.http.post(f"{path}schedules/", json=body)
        assert answer.status_code == 201, answer.text
        schedule = answer.json()
        assert (schedule["unified_job_type"], schedule["related"]["unified_job_template"]) == (
            kind,
            path,
        )
        listed = api.http.get(api.http.get(path).json()["related"]["schedules"]).json()
        assert [each["id"] for each in listed["results"]] == [schedule["id"]]
        api.http.delete(schedule["url"])


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": ""}, "name"),
        ({"unified_job_template": 999}, "unified_job_template"),
        ({"unified_job_type": "workflow_approval"}, "unified_job_type"),
        ({"rrule": None}, "rrule"),
        ({"cron": "@daily"}, "cron"),
        ({"rrule": "nonsense"}, "rrule"),
        ({"rrule": "DTSTART:20200101T000000Z RRULE:FREQ=DAILY;COUNT=1"}, "rrule"),
        ({"rrule": "DTSTART:20260101T000000Z RRULE:FREQ=SECONDLY"}, "rrule"),
        ({"rrule": None, "cron": "0 0 30 2 *"}, "cron"),
        ({"rrule": None, "cron": "61 * * * *"}, "cron"),
        ({"rrule": None, "cron": "@daily", "timezone": "Nowhere/Town"}, "timezone"),
        ({"timezone": "Asia/Tokyo"}, "timezone"),
        ({"starts": "tomorrow"}, "starts"),
        ({"starts": "2027-01-01T00:00:00"}, "starts"),
        ({"ends": "2020-01-01T00:00:00Z"}, "rrule"),
        ({"starts": "2028-01-01T00:00:00Z", "ends": "2027-01-01T00:00:00Z"}, "ends"),
        ({"misfire": "maybe"}, "misfire"),
        ({"misfire_limit": 0}, "misfire_limit"),
        ({"verbosity": 1}, "verbosity"),
        ({"limit": "@x"}, "limit"),
        ({"job_tags": "-x"}, "job_tags"),
        ({"extra_data": "]"}, "extra_data"),
        ({"extra_data": {"1x": 1}}, "extra_data"),
        ({"inventory": 1}, "inventory"),
        ({"color": 1}, "color"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(
    api: Api, engine: Engine, ground: dict[str, int], fields: dict[str, Any], wrong: str
) -> None:
    body = {"name": "x", "unified_job_template": ground["template"], "rrule": DAILY} | fields
    answer = api.http.post(SCHEDULES, json=body)
    assert (answer.status_code, list(answer.json())) == (400, [wrong]), answer.text
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM schedule WHERE name = 'x'")) == 0


def test_a_change_that_is_refused_changes_nothing(api: Api, ground: dict[str, int]) -> None:
    schedule = made(api, ground, name="stays")
    for fields, wrong in [
        ({"rrule": "DTSTART:20260101T000000Z RRULE:FREQ=DAILY;BYEASTER=1"}, "rrule"),
        ({"description": "d", "ends": "2020-01-01T00:00:00Z"}, "rrule"),
        ({"cron": "* * *"}, "cron"),
        ({"verbosity": 1}, "verbosity"),
    ]:
        answer = api.http.patch(schedule["url"], json=fields)
        assert (answer.status_code, list(answer.json())) == (400, [wrong]), answer.text
    assert api.http.get(schedule["url"]).json() == schedule
    assert api.http.patch(f"{SCHEDULES}999/", json={"enabled": True}).status_code == 404


def test_what_came_of_the_last_due_times_is_shown(
    api: Api, engine: Engine, ground: dict[str, int]
) -> None:
    schedule = made(api, ground, name="shown")
    with engine.begin() as connection:
        rows = [
            {"due": f"2026-01-0{day}T01:30:00Z", "job_id": job, "error": error}
            for day, job, error in [(1, ground["job"], ""), (2, None, "the template is gone")]
        ]
        connection.execute(
            insert(t.schedule_launch), [{"schedule_id": schedule["id"], **row} for row in rows]
        )
    shown = api.http.get(schedule["url"]).json()["last_launches"]
    assert [(each["job"], each["url"], each["error"]) for each in shown] == [
        (None, None, "the template is gone"),
        (ground["job"], f"/api/v2/jobs/{ground['job']}/", ""),
    ]


def test_a_rule_is_tried_without_being_stored(api: Api) -> None:
    rule = {"rrule": "DTSTART;TZID=Europe/Berlin:20300101T023000 RRULE:FREQ=DAILY;COUNT=3"}
    found = api.http.post(f"{SCHEDULES}preview/", json=rule)
    assert found.status_code == 200, found.text
    assert found.json() == {
        "utc": [f"2030-01-0{day}T01:30:00Z" for day in (1, 2, 3)],
        "local": [f"2030-01-0{day}T02:30:00+01:00" for day in (1, 2, 3)],
    }
    cron = {"cron": "0 12 * * *", "timezone": "Asia/Tokyo", "count": 4}
    times = api.http.post(f"{SCHEDULES}preview/", json=cron).json()
    assert len(times["utc"]) == 4
    assert all(moment.endswith("T03:00:00Z") for moment in times["utc"])
    for body, wrong in [
        ({}, "rrule"),
        ({"rrule": "x"}, "rrule"),
        ({"cron": "x"}, "cron"),
        ({"cron": "@daily", "count": 0}, "count"),
        ({"cron": "@daily", "timezone": "x"}, "timezone"),
    ]:
        answer = api.http.post(f"{SCHEDULES}preview/", json=body)
        assert (answer.status_code, list(answer.json())) == (400, [wrong]), answer.text


def test_a_schedule_belongs_to_the_organization_of_what_it_launches(
    api: Api, engine: Engine, ground: dict[str, int]
) -> None:
    schedule = made(api, ground, name="owned")
    with engine.connect() as connection:
        assert schedule["organization"] == default_organization(connection)
    taken = api.http.post(
        SCHEDULES,
        json={"name": "owned", "unified_job_template": ground["workflow"], "cron": "@daily"}
        | {"unified_job_type": "workflow_job"},
    )
    assert (taken.status_code, list(taken.json())) == (400, ["name"])
