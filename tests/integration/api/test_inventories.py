"""``inventories/``, ``hosts/``, ``groups/``: what is stored, and what follows for locks and jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine, func, select, text

from dispatcher.db import tables as t
from dispatcher.db.change import read_counter
from tests.api_server import Api
from tests.factories import make_job
from tests.integration.api.conftest import woken
from tests.racing import at_once
from tests.templates import make_inventory, make_project, make_template

INVENTORIES = "/api/v2/inventories/"


@pytest.fixture
def inventory(api: Api) -> dict[str, Any]:
    answer = api.http.post(INVENTORIES, json={"name": "production", "organization": 1})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def _make(api: Api, inventory: dict[str, Any], path: str, **body: Any) -> dict[str, Any]:
    answer = api.http.post(f"{inventory['url']}{path}/", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def _now(api: Api, made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = api.http.get(made["url"]).json()
    return found


def test_an_inventory_is_made_read_changed_and_deleted_with_what_is_in_it(
    api: Api, engine: Engine, inventory: dict[str, Any]
) -> None:
    _make(api, inventory, "hosts", name="web1")
    _make(api, inventory, "hosts", name="web2", enabled=False)
    _make(api, inventory, "groups", name="web")
    shown = _now(api, inventory)
    counts = ("host_count", "total_hosts", "total_groups", "total_inventory_sources", "revision")
    assert [shown[name] for name in counts] == [1, 2, 1, 0, 3]
    changed = api.http.patch(inventory["url"], json={"variables": "ansible_port: 2222\n"}).json()
    assert (json.loads(changed["variables"]), changed["revision"]) == ({"ansible_port": 2222}, 4)
    listed = api.http.get(INVENTORIES, params={"name__startswith": "prod", "order_by": "-name"})
    assert listed.json()["count"] == 1
    assert api.http.delete(inventory["url"]).status_code == 204
    with engine.connect() as connection:
        for table in (t.inventory, t.inventory_host, t.inventory_group):
            assert connection.scalar(select(func.count()).select_from(table)) == 0


@pytest.mark.parametrize("given", ['{"a": 1}', "a: 1", {"a": 1}])
def test_variables_are_taken_as_json_yaml_or_an_object(api: Api, given: Any) -> None:
    body = {"name": "i", "organization": 1, "variables": given}
    assert api.http.post(INVENTORIES, json=body).json()["variables"] == '{"a": 1}'


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("", {"organization": 1}, "name"),
        ("", {"name": "x", "organization": 999}, "organization"),
        ("", {"name": "production", "organization": 1}, "name"),
        ("", {"name": "x", "organization": 1, "variables": "[1]"}, "variables"),
        ("", {"name": "x", "organization": 1, "variables": "a: b: c"}, "variables"),
        ("", {"name": "x", "organization": 1, "variables": "a: .nan"}, "variables"),
        ("", {"name": "x", "organization": 1, "variables": 'a: "\\0"'}, "variables"),
        ("", {"name": "x", "organization": 1, "variables": "a: {1: 2}"}, "variables"),
        ("", {"name": "x", "organization": 1, "variables": 7}, "variables"),
        ("", {"name": "x", "organization": 1, "kind": "smart"}, "kind"),
        ("1/hosts/", {}, "name"),
        ("1/hosts/", {"name": "a b"}, "name"),
        ("1/hosts/", {"name": "a", "enabled": "yes"}, "enabled"),
        ("1/hosts/", {"name": "a", "inventory": 2}, "inventory"),
        ("1/hosts/", {"name": "a", "instance_id": "x"}, "instance_id"),
        ("1/groups/", {"name": "all"}, "name"),
        ("1/groups/", {"name": "a:b"}, "name"),
        ("1/inventory_sources/", {"name": "s", "source_path": "x"}, "source_project"),
        (
            "1/inventory_sources/",
            {"name": "s", "source_path": "../x", "source_project": 1},
            "source_path",
        ),
        (
            "1/inventory_sources/",
            {"name": "s", "source_path": "x", "source_project": 999},
            "source_project",
        ),
        (
            "1/inventory_sources/",
            {"name": "s", "source_path": "x", "source_project": 1, "gone_hosts": "burn"},
            "gone_hosts",
        ),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(
    api: Api,
    engine: Engine,
    inventory: dict[str, Any],
    path: str,
    body: dict[str, Any],
    field: str,
) -> None:
    with engine.begin() as connection:
        make_project(connection)
    answer = api.http.post(INVENTORIES + path, json=body)
    assert answer.status_code == 400, answer.text
    # a text or an object: both ways of reading it are named
    assert {name.split(".")[0] for name in answer.json()} == {field}
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(t.inventory)) == 1
        for table in (t.inventory_host, t.inventory_group, t.inventory_source):
            assert connection.scalar(select(func.count()).select_from(table)) == 0


def test_what_is_inside_of_nothing_is_not_found(api: Api) -> None:
    for path in ("hosts", "groups", "inventory_sources", "variable_data"):
        assert api.http.get(f"{INVENTORIES}999/{path}/").status_code == 404
    assert api.http.post(f"{INVENTORIES}999/hosts/", json={"name": "a"}).status_code == 404
    assert api.http.patch(f"{INVENTORIES}999/variable_data/", json={}).status_code == 404


@pytest.mark.parametrize("kind", ["hosts", "groups"])
def test_hosts_and_groups_are_made_read_changed_and_deleted(
    api: Api, inventory: dict[str, Any], kind: str
) -> None:
    body = {"name": "a", "inventory": inventory["id"], "variables": "x: 1"}
    made = api.http.post(f"/api/v2/{kind}/", json=body)
    assert made.status_code == 201, made.text
    url = made.headers["Location"]
    assert api.http.get(url).json() == made.json()
    assert made.json()["summary_fields"]["inventory"]["name"] == "production"
    assert api.http.patch(url, json={"description": "d"}).json()["description"] == "d"
    assert api.http.put(url, json={**body, "name": "b"}).json()["name"] == "b"
    moved = api.http.patch(url, json={"inventory": 999})
    assert (moved.status_code, list(moved.json())) == (400, ["inventory"])
    again = api.http.post(f"/api/v2/{kind}/", json={**body, "name": "b"})
    assert (again.status_code, list(again.json())) == (400, ["name"])
    found = api.http.get(f"/api/v2/{kind}/", params={"inventory__name": "production"}).json()
    assert [each["name"] for each in found["results"]] == ["b"]
    assert api.http.delete(url).status_code == 204
    assert api.http.delete(url).status_code == 404


@pytest.mark.parametrize("kind", ["inventories", "hosts", "groups"])
def test_variable_data_is_merged_by_patch_and_replaced_by_put(
    api: Api, inventory: dict[str, Any], kind: str
) -> None:
    made = inventory if kind == "inventories" else _make(api, inventory, kind, name="a")
    path = made["related"]["variable_data"]
    assert api.http.get(path).json() == {}
    assert api.http.put(path, json={"a": 1, "b": 2}).json() == {"a": 1, "b": 2}
    assert api.http.patch(path, json={"b": 3}).json() == {"a": 1, "b": 3}
    assert api.http.put(path, json={"c": [1]}).json() == {"c": [1]}
    assert json.loads(_now(api, made)["variables"]) == {"c": [1]}
    refused = api.http.patch(path, json=[1])
    assert (refused.status_code, list(refused.json())) == (400, ["body"])


def test_two_patches_of_variables_at_once_lose_nothing(api: Api, inventory: dict[str, Any]) -> None:
    path = inventory["related"]["variable_data"]
    calls = [lambda n=n: api.http.patch(path, json={f"v{n}": n}) for n in range(6)]
    assert {answer.status_code for answer in at_once(calls)} == {200}
    assert len(api.http.get(path).json()) == 6


def test_hosts_and_groups_are_put_into_groups_and_taken_out(
    api: Api, inventory: dict[str, Any]
) -> None:
    host = _make(api, inventory, "hosts", name="web1")
    web, inner = (_make(api, inventory, "groups", name=name) for name in ("web", "inner"))
    for path, member in (("hosts", host), ("children", inner)):
        url = f"{web['url']}{path}/"
        for _ in range(2):  # what is so already is no error
            put = api.http.post(url, json={"id": member["id"]})
            assert (put.status_code, put.content) == (204, b"")
        assert [each["id"] for each in api.http.get(url).json()["results"]] == [member["id"]]
    assert _now(api, host)["summary_fields"]["groups"] == {
        "count": 1,
        "results": [{"id": web["id"], "name": "web"}],
    }
    around = api.http.get(host["related"]["groups"]).json()["results"]
    assert [each["name"] for each in around] == ["web"]
    loop = api.http.post(f"{inner['url']}children/", json={"id": web["id"]})
    assert loop.json() == {"children": ["a loop: inner → web → inner"]}
    for path, member in (("hosts", host), ("children", inner)):
        url = f"{web['url']}{path}/"
        for _ in range(2):
            body = {"id": member["id"], "disassociate": True}
            assert api.http.post(url, json=body).status_code == 204
        assert api.http.get(url).json()["count"] == 0


def test_a_member_of_another_inventory_is_refused(api: Api, inventory: dict[str, Any]) -> None:
    other = api.http.post(INVENTORIES, json={"name": "other", "organization": 1}).json()
    host = _make(api, other, "hosts", name="web1")
    group = _make(api, inventory, "groups", name="web")
    for body in ({"id": host["id"]}, {"id": 999}):
        answer = api.http.post(f"{group['url']}hosts/", json=body)
        assert (answer.status_code, list(answer.json())) == (400, ["host"])
    for wrong in ({}, {"id": 0}, {"id": "1"}, {"id": 1, "disassociate": "yes"}):
        assert api.http.post(f"{group['url']}hosts/", json=wrong).status_code == 400
    assert api.http.get(f"{group['url']}hosts/").json()["count"] == 0


def test_every_change_that_jobs_could_see_raises_revision_and_counter_and_wakes_the_manager(
    api: Api, engine: Engine, inventory: dict[str, Any], broker_url: str
) -> None:
    def counter() -> int:
        with engine.connect() as connection:
            return read_counter(connection)

    host = _make(api, inventory, "hosts", name="web1")
    group = _make(api, inventory, "groups", name="web")
    assert woken(broker_url) == {"task"}
    changes: list[tuple[str, str, Any]] = [
        ("POST", f"{group['url']}hosts/", {"id": host["id"]}),
        ("PATCH", host["url"], {"enabled": False}),
        ("PATCH", host["url"], {"variables": "ansible_host: 10.0.0.1"}),
        ("PUT", group["related"]["variable_data"], {"ansible_port": 2}),
        ("PATCH", inventory["url"], {"variables": {"a": 1}}),
        ("POST", f"{group['url']}hosts/", {"id": host["id"], "disassociate": True}),
        ("DELETE", group["url"], None),
        ("DELETE", host["url"], None),
    ]
    for method, path, body in changes:
        before = _now(api, inventory)["revision"], counter()
        answer = api.http.request(method, path, json=body)
        assert answer.status_code in (200, 204), answer.text
        assert (_now(api, inventory)["revision"], counter()) == (before[0] + 1, before[1] + 1)


def test_a_pending_job_follows_its_inventory(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        inventory = make_inventory(connection, ["a"])
        job = make_job(connection, inventory_id=inventory, task_impact=2)
    for name in ("b", "c"):
        made = api.http.post(f"{INVENTORIES}{inventory}/hosts/", json={"name": name})
        assert made.status_code == 201, made.text
    with engine.connect() as connection:
        row = connection.execute(select(t.job).where(t.job.c.id == job)).one()
    assert (row.task_impact, row.inventory_revision) == (4, 2)


def test_an_inventory_in_use_is_kept(api: Api, engine: Engine, inventory: dict[str, Any]) -> None:
    with engine.begin() as connection:
        template = make_template(connection, None, inventory["id"])
    refused = api.http.delete(inventory["url"])
    assert (refused.status_code, refused.json()["code"]) == (409, "in_use")
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM job_template WHERE id = :id"), {"id": template})
        job = make_job(connection, inventory_id=inventory["id"])
    refused = api.http.delete(inventory["url"])
    assert refused.json()["active_jobs"] == [job]
    assert _now(api, inventory)["name"] == "production"


def test_a_source_is_made_updated_and_kept_while_its_update_runs(
    api: Api, engine: Engine, inventory: dict[str, Any], broker_url: str
) -> None:
    with engine.begin() as connection:
        project = make_project(connection)
    body = {"name": "cmdb", "source_project": project, "source_path": "hosts.yml"}
    source = _make(api, inventory, "inventory_sources", **body)
    assert (source["status"], source["gone_hosts"]) == ("never updated", "disable")
    changed = api.http.patch(source["url"], json={"update_cache_timeout": 60}).json()
    assert changed["update_cache_timeout"] == 60
    assert not woken(broker_url)
    assert api.http.get(source["related"]["update"]).json() == {"can_update": True}
    job = api.http.post(source["related"]["update"])
    assert job.status_code == 202, job.text
    made = job.json()
    assert made["inventory_update"] == made["id"]
    assert (made["type"], made["inventory"], made["source_path"]) == (
        "inventory_update",
        inventory["id"],
        "hosts.yml",
    )
    assert woken(broker_url) == {"dependency"}
    assert api.http.get(made["url"]).json()["inventory_source"] == source["id"]
    listed = api.http.get(source["related"]["inventory_updates"]).json()
    assert [each["id"] for each in listed["results"]] == [made["id"]]
    assert _now(api, source)["summary_fields"]["current_update"]["id"] == made["id"]
    assert api.http.delete(source["url"]).json()["active_jobs"] == [made["id"]]
    assert api.http.delete(f"/api/v2/projects/{project}/").status_code == 409
    assert api.http.post(f"{made['url']}cancel/").status_code == 202
    assert api.http.delete(source["url"]).status_code == 204
