"""Nodes are disabled, drained and adjusted; instance groups are made, filled, paused and deleted."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Engine, insert, select, text

from dispatcher.actions.register_node import register_node, update_capacity
from dispatcher.actions.save_instance_group import delete_group
from dispatcher.actions.save_organization import change_organization, create_organization
from dispatcher.db import job_moves
from dispatcher.db import tables as t
from dispatcher.db.change import read_counter
from dispatcher.errors import Conflict, InvalidRequest
from tests.api_server import Api
from tests.factories import default_group, default_organization, make_job, make_node
from tests.integration.api.conftest import woken
from tests.racing import at_once
from tests.templates import make_template

INSTANCES = "/api/v2/instances/"
GROUPS = "/api/v2/instance_groups/"


@pytest.fixture
def node(engine: Engine) -> int:
    with engine.begin() as connection:
        return make_node(connection)


@pytest.fixture
def fast(api: Api) -> dict[str, Any]:
    answer = api.http.post(GROUPS, json={"name": "fast", "max_forks": 40})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def _counter(engine: Engine) -> int:
    with engine.connect() as connection:
        return read_counter(connection)


def _job(engine: Engine, job_id: int) -> Any:
    with engine.connect() as connection:
        return connection.execute(select(t.job).where(t.job.c.id == job_id)).one()


@pytest.mark.parametrize(
    ("body", "why"), [({"enabled": False}, "disabled"), ({"draining": True}, "draining")]
)
def test_a_node_that_is_shut_gives_back_what_waits_and_keeps_what_runs(
    api: Api, engine: Engine, node: int, broker_url: str, body: dict[str, Any], why: str
) -> None:
    with engine.begin() as connection:
        waiting = make_job(connection, status="waiting")
        running = make_job(connection, status="running")
    before = _counter(engine)
    answer = api.http.patch(f"{INSTANCES}{node}/", json=body)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["takes_jobs"], answer.json()["capacity"]) == (False, 0)
    assert (_counter(engine), woken(broker_url)) == (before + 1, {"task"})
    returned = _job(engine, waiting)
    assert (returned.status, returned.node_id) == ("pending", None)
    assert returned.pending_reason["data"] == {"node": "n1", "why": why}
    assert _job(engine, running).status == "running"
    back = api.http.patch(f"{INSTANCES}{node}/", json={"enabled": True, "draining": False})
    assert (back.json()["takes_jobs"], back.json()["capacity"]) == (True, 100)


def test_what_a_late_pass_starts_on_a_node_that_is_shut_is_not_claimed(
    api: Api, engine: Engine, node: int
) -> None:
    assert api.http.post(f"{INSTANCES}{node}/drain/").status_code == 202
    with engine.begin() as connection:
        job = make_job(connection, status="waiting")
        dispatch = connection.scalar(select(t.job.c.dispatch_id).where(t.job.c.id == job))
        assert dispatch is not None
        pairs = [(job, dispatch)]
        assert job_moves.claim(connection, pairs, node_id=node, epoch=1) == []
    api.http.patch(f"{INSTANCES}{node}/", json={"draining": False})
    with engine.begin() as connection:
        assert len(job_moves.claim(connection, pairs, node_id=node, epoch=1)) == 1


def test_a_drain_says_what_still_runs_and_until_when(api: Api, engine: Engine, node: int) -> None:
    path = f"{INSTANCES}{node}/drain/"
    assert api.http.get(path).json()["drained"] is False
    with engine.begin() as connection:
        template = make_template(connection, None, None)
        make_job(
            connection,
            status="successful",
            job_template_id=template,
            started=text("dispatcher_now() - interval '100 s'"),
        )
        job = make_job(connection, status="running", job_template_id=template, name="install")
    found = api.http.post(path)
    assert found.status_code == 202, found.text
    assert (found.json()["draining"], found.json()["drained"]) == (True, False)
    (shown,) = found.json()["jobs"]
    assert (shown["id"], shown["name"], shown["status"]) == (job, "install", "running")
    assert shown["started"] < shown["expected_end"]
    with engine.begin() as connection:
        connection.execute(t.job.delete())
    ended = api.http.get(path).json()
    assert (ended["drained"], ended["jobs"]) == (True, [])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"enabled": 1}, "enabled"),
        ({"draining": "yes"}, "draining"),
        ({"capacity_adjustment": 1.5}, "capacity_adjustment"),
        ({"capacity_adjustment": -0.1}, "capacity_adjustment"),
        ({"capacity_adjustment": "1"}, "capacity_adjustment"),
        ({"hostname": "other"}, "hostname"),
        ({"capacity": 5}, "capacity"),
    ],
)
def test_a_wrong_field_of_a_node_is_named_and_nothing_changes(
    api: Api, engine: Engine, node: int, body: dict[str, Any], field: str
) -> None:
    before = api.http.get(f"{INSTANCES}{node}/").json(), _counter(engine)
    answer = api.http.patch(f"{INSTANCES}{node}/", json=body)
    assert (answer.status_code, list(answer.json())) == (400, [field]), answer.text
    assert (api.http.get(f"{INSTANCES}{node}/").json(), _counter(engine)) == before


def test_a_node_that_is_gone_is_not_found(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        gone = make_node(connection, "gone", removed=text("dispatcher_now()"))
    for number in (gone, 999):
        url = f"{INSTANCES}{number}/"
        assert api.http.patch(url, json={"enabled": False}).status_code == 404
        assert api.http.post(f"{url}drain/").status_code == 404
        assert api.http.get(f"{url}instance_groups/").status_code == 404
    assert api.http.delete(f"{INSTANCES}1/").status_code == 405
    assert api.http.post(INSTANCES, json={}).status_code == 405


def test_an_operators_adjustment_outlives_the_nodes_own(api: Api, engine: Engine) -> None:
    measured = {"cpus": 4.0, "memory": 8 << 30, "fixed_capacity": None, "max_jobs": 10}
    who = {"name": "n1", "identity": uuid4(), "machine_id": "m", "groups": ["default"]}

    def register() -> int:
        with engine.begin() as connection:
            return register_node(
                connection, **who, **measured, adjustment=1.0, version="1"  # type: ignore[arg-type]
            ).node_id  # fmt: skip

    url = f"{INSTANCES}{register()}/"
    assert api.http.get(url).json()["capacity"] == 61
    changed = api.http.patch(url, json={"capacity_adjustment": 0})
    assert (changed.status_code, changed.json()["capacity"]) == (200, 16)
    node = register()
    assert api.http.get(url).json()["capacity"] == 16
    with engine.begin() as connection:
        owed = update_capacity(connection, node, **measured, adjustment=1.0)  # type: ignore[arg-type]
        assert not owed


def test_a_group_is_made_changed_paused_and_deleted(
    api: Api, engine: Engine, fast: dict[str, Any], broker_url: str
) -> None:
    assert (fast["type"], fast["max_forks"], fast["instances"]) == ("instance_group", 40, 0)
    for body in (
        {"max_concurrent_jobs": 3},
        {"paused": True, "pause_reason": "new disks"},
        {"name": "faster"},
    ):
        before = _counter(engine)
        answer = api.http.patch(fast["url"], json=body)
        assert {name: answer.json()[name] for name in body} == body
        assert _counter(engine) == before + 1
    assert woken(broker_url) == {"task"}
    put = api.http.put(fast["url"], json={"name": "fast", "paused": False})
    assert (put.json()["paused"], put.json()["max_concurrent_jobs"]) == (False, 3)
    before = _counter(engine)
    assert api.http.delete(fast["url"]).status_code == 204
    assert _counter(engine) == before + 1
    assert api.http.get(fast["url"]).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": "default"}, "name"),
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "x", "max_forks": -1}, "max_forks"),
        ({"name": "x", "max_concurrent_jobs": 2**31}, "max_concurrent_jobs"),
        ({"name": "x", "pause_reason": "a\nb", "paused": True}, "pause_reason"),
        ({"name": "x", "policy_instance_minimum": 1}, "policy_instance_minimum"),
    ],
)
def test_a_wrong_field_of_a_group_is_named_and_nothing_is_stored(
    api: Api, engine: Engine, body: dict[str, Any], field: str
) -> None:
    answer = api.http.post(GROUPS, json=body)
    assert (answer.status_code, list(answer.json())) == (400, [field]), answer.text
    with engine.connect() as connection:
        assert connection.scalars(select(t.instance_group.c.name)).all() == ["default"]
        assert connection.scalars(select(t.pause.c.id)).all() == []


def test_nodes_are_put_into_groups_and_taken_out_from_either_side(
    api: Api, engine: Engine, node: int, fast: dict[str, Any]
) -> None:
    inside, around = f"{fast['url']}instances/", f"{INSTANCES}{node}/instance_groups/"
    for path, member in ((inside, node), (around, fast["id"])):
        before = _counter(engine)
        for _ in range(2):
            assert api.http.post(path, json={"id": member}).status_code == 204
        assert _counter(engine) == before + 1
        assert [each["id"] for each in api.http.get(inside).json()["results"]] == [node]
        names = {each["name"] for each in api.http.get(around).json()["results"]}
        assert names == {"default", "fast"}
        body = {"id": member, "disassociate": True}
        assert api.http.post(path, json=body).status_code == 204
        assert _counter(engine) == before + 2
        assert api.http.get(inside).json()["count"] == 0
    refused = api.http.post(inside, json={"id": 999})
    assert (refused.status_code, list(refused.json())) == (400, ["id"])


def test_a_group_that_something_names_is_kept_and_says_what(
    api: Api, engine: Engine, node: int, fast: dict[str, Any]
) -> None:
    def refusal() -> dict[str, Any]:
        answer = api.http.delete(fast["url"])
        assert (answer.status_code, answer.json()["code"]) == (409, "in_use"), answer.text
        body: dict[str, Any] = answer.json()
        return body

    assert api.http.delete(f"{GROUPS}1/").status_code == 409  # default
    with engine.begin() as connection:
        job = make_job(connection, preferred_groups=[fast["id"]])
    assert refusal()["active_jobs"] == [job]
    with engine.begin() as connection:
        connection.execute(t.job.delete())
        template = make_template(connection, None, None, instance_groups=[fast["id"]], name="t")
    assert "job template 't'" in refusal()["detail"]
    with engine.begin() as connection:
        connection.execute(t.job_template.delete().where(t.job_template.c.id == template))
        connection.execute(
            insert(t.schedule).values(
                organization_id=default_organization(connection),
                name="nightly",
                launches="job_template",
                template_id=1,
                rule_kind="cron",
                rule="0 0 * * *",
                prompts={"instance_groups": [1, fast["id"]]},
            )
        )
    assert "schedule 'nightly'" in refusal()["detail"]
    with engine.begin() as connection:
        connection.execute(t.schedule.delete())
        ended = make_job(connection, status="successful", instance_group_id=fast["id"])
    assert api.http.delete(fast["url"]).status_code == 204
    assert api.http.get(f"/api/v2/jobs/{ended}/").json()["instance_group"] is None


def test_a_group_is_not_deleted_from_under_an_organization_that_comes_to_prefer_it(
    engine: Engine,
) -> None:
    with engine.begin() as connection:
        organization, _ = create_organization(connection, {"name": "ops"})

    def prefer(group: int) -> None:
        with engine.begin() as connection:
            change_organization(connection, organization, {"instance_groups": [group]})

    def delete(group: int) -> None:
        with engine.begin() as connection:
            delete_group(connection, group)

    for number in range(5):
        with engine.begin() as connection:
            group = connection.execute(
                insert(t.instance_group).values(name=f"g{number}").returning(t.instance_group.c.id)
            ).scalar_one()
        outcomes = at_once([lambda g=group: prefer(g), lambda g=group: delete(g)])
        errors = [each for each in outcomes if each is not None]
        assert len(errors) == 1, outcomes
        assert isinstance(errors[0], Conflict | InvalidRequest), errors


def test_an_organizations_groups_are_put_in_and_taken_out(
    api: Api, engine: Engine, fast: dict[str, Any]
) -> None:
    with engine.connect() as connection:
        default = default_group(connection)
    made = api.http.post("/api/v2/organizations/", json={"name": "ops"}).json()
    path = made["related"]["instance_groups"]
    for group in (fast["id"], default, fast["id"]):
        assert api.http.post(path, json={"id": group}).status_code == 204
    assert api.http.get(made["url"]).json()["instance_groups"] == [fast["id"], default]
    assert {each["name"] for each in api.http.get(path).json()["results"]} == {"default", "fast"}
    assert list(api.http.post(path, json={"id": 999}).json()) == ["id"]
    assert api.http.delete(fast["url"]).status_code == 409
    out = {"id": fast["id"], "disassociate": True}
    assert api.http.post(path, json=out).status_code == 204
    assert api.http.get(made["url"]).json()["instance_groups"] == [default]
