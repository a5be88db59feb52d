"""``organizations/``: tenants are made, changed, paused and deleted."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, select, text

from dispatcher.db import tables as t
from dispatcher.db.change import read_counter
from tests.api_server import Api
from tests.factories import default_group, make_job
from tests.integration.api.conftest import woken

ORGANIZATIONS = "/api/v2/organizations/"


def _counter(engine: Engine) -> int:
    with engine.connect() as connection:
        return read_counter(connection)


def test_an_organization_is_made_read_changed_and_deleted(api: Api) -> None:
    made = api.http.post(ORGANIZATIONS, json={"name": "ops", "weight": 3})
    assert made.status_code == 201, made.text
    url = made.json()["url"]
    assert made.headers["Location"] == url
    assert api.http.get(url).json() == made.json()
    shown = {name: made.json()[name] for name in ("type", "name", "weight", "max_concurrent_jobs")}
    assert shown == {
        "type": "organization",
        "name": "ops",
        "weight": 3.0,
        "max_concurrent_jobs": 0,
    }
    changed = api.http.patch(url, json={"description": "on call"})
    assert (changed.status_code, changed.json()["description"]) == (200, "on call")
    assert changed.json()["weight"] == 3.0
    assert changed.json()["modified"] > made.json()["modified"]
    listed = api.http.get(ORGANIZATIONS, params={"name": "ops"}).json()
    assert [each["id"] for each in listed["results"]] == [made.json()["id"]]
    gone = api.http.delete(url)
    assert (gone.status_code, gone.content) == (204, b"")
    assert api.http.get(url).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": 7}, "name"),
        ({"name": "Default"}, "name"),
        ({"name": "x", "weight": 0}, "weight"),
        ({"name": "x", "weight": -1}, "weight"),
        ({"name": "x", "weight": "3"}, "weight"),
        ({"name": "x", "max_concurrent_jobs": -1}, "max_concurrent_jobs"),
        ({"name": "x", "max_concurrent_jobs": 2**40}, "max_concurrent_jobs"),
        ({"name": "x", "instance_groups": [10**9]}, "instance_groups"),
        ({"name": "x", "instance_groups": [1, 1]}, "instance_groups"),
        ({"name": "x", "paused": 1}, "paused"),
        ({"name": "x", "pause_reason": "no pause"}, "pause_reason"),
        ({"name": "x", "color": "red"}, "color"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(
    api: Api, engine: Engine, body: dict[str, Any], field: str
) -> None:
    answer = api.http.post(ORGANIZATIONS, json=body)
    assert (answer.status_code, list(answer.json())) == (400, [field]), answer.text
    with engine.connect() as connection:
        assert connection.scalars(select(t.organization.c.name)).all() == ["Default"]


def test_a_change_that_is_refused_changes_nothing(api: Api) -> None:
    url = api.http.post(ORGANIZATIONS, json={"name": "ops"}).json()["url"]
    before = api.http.get(url).json()
    answer = api.http.patch(url, json={"paused": True, "weight": -1})
    assert (answer.status_code, list(answer.json())) == (400, ["weight"])
    assert list(api.http.patch(url, json={"name": "Default"}).json()) == ["name"]
    assert list(api.http.put(url, json={"weight": 2}).json()) == ["name"]
    assert api.http.get(url).json() == before
    assert api.http.patch(f"{ORGANIZATIONS}999/", json={"weight": 2}).status_code == 404
    assert api.http.delete(f"{ORGANIZATIONS}999/").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"weight": 2},
        {"max_concurrent_jobs": 5},
        {"paused": True, "pause_reason": "moving house"},
    ],
)
def test_what_a_planner_looks_at_raises_the_change_counter_and_wakes_it(
    api: Api, engine: Engine, broker_url: str, body: dict[str, Any]
) -> None:
    url = api.http.post(ORGANIZATIONS, json={"name": "ops"}).json()["url"]
    before = _counter(engine)
    assert not woken(broker_url)
    answer = api.http.patch(url, json=body)
    assert {name: answer.json()[name] for name in body} == body
    assert _counter(engine) == before + 1
    assert woken(broker_url) == {"task"}


def test_words_wake_nobody(api: Api, engine: Engine, broker_url: str) -> None:
    url = api.http.post(ORGANIZATIONS, json={"name": "ops"}).json()["url"]
    before = _counter(engine)
    api.http.patch(url, json={"description": "new"})
    assert (_counter(engine), woken(broker_url)) == (before, set())


def test_a_pause_has_a_reason_and_an_author_until_it_ends(api: Api, engine: Engine) -> None:
    url = api.http.post(ORGANIZATIONS, json={"name": "ops", "paused": True}).json()["url"]
    api.http.patch(url, json={"pause_reason": "moving house"})
    kept = api.http.patch(url, json={"paused": True}).json()
    assert (kept["paused"], kept["pause_reason"]) == (True, "moving house")
    with engine.connect() as connection:
        assert connection.scalars(select(t.pause.c.created_by)).all() == ["tests"]
    ended = api.http.patch(url, json={"paused": False}).json()
    assert (ended["paused"], ended["pause_reason"]) == (False, "")
    refused = api.http.patch(url, json={"pause_reason": "again"})
    assert list(refused.json()) == ["pause_reason"]


def test_an_organization_that_something_belongs_to_is_kept(api: Api, engine: Engine) -> None:
    made = api.http.post(ORGANIZATIONS, json={"name": "ops"}).json()
    with engine.begin() as connection:
        job = make_job(connection, status="successful", organization_id=made["id"])
    answer = api.http.delete(made["url"])
    assert (answer.status_code, answer.json()["code"]) == (409, "in_use")
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM job WHERE id = :job"), {"job": job})
    assert api.http.delete(made["url"]).status_code == 204


def test_the_organization_that_runs_belong_to_keeps_its_name(api: Api) -> None:
    (default,) = api.http.get(ORGANIZATIONS).json()["results"]
    assert list(api.http.patch(default["url"], json={"name": "other"}).json()) == ["name"]
    assert api.http.delete(default["url"]).status_code == 409


def test_the_preferred_groups_keep_their_order(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        default = default_group(connection)
        other = connection.execute(
            text("INSERT INTO instance_group (name) VALUES ('fast') RETURNING id")
        ).scalar_one()
    body = {"name": "ops", "instance_groups": [other, default]}
    made = api.http.post(ORGANIZATIONS, json=body).json()
    assert made["instance_groups"] == [other, default]


def test_everything_is_paused_until_it_goes_on(api: Api, engine: Engine, broker_url: str) -> None:
    path = "/api/v2/pause/"
    assert api.http.get(path).json() == {"paused": False, "pause_reason": ""}
    before = _counter(engine)
    switch = {"paused": True, "pause_reason": "moving house"}
    for _ in range(2):
        assert api.http.put(path, json=switch).json() == switch
    assert api.http.get(path).json() == switch
    assert (_counter(engine), woken(broker_url)) == (before + 2, {"task"})
    for body, field in (({}, "paused"), ({"paused": 1}, "paused"), ({**switch, "x": 1}, "x")):
        assert list(api.http.put(path, json=body).json()) == [field]
    assert list(api.http.put(path, json={**switch, "paused": False}).json()) == ["pause_reason"]
    assert api.http.put(path, json={"paused": False}).json()["paused"] is False
    with engine.connect() as connection:
        assert connection.scalars(select(t.pause.c.id)).all() == []
