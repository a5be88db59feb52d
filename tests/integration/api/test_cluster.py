"""``ping/``, ``instances/``, ``instance_groups/``, ``metrics/`` and the probes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import Engine, insert, text

from dispatcher.db import tables as t
from tests.api_server import Api
from tests.factories import default_group, make_job, make_node


@pytest.fixture
def cluster(api: Api, engine: Engine) -> Api:
    """n1 (100) with two active jobs; n2 (50) alone in ``fast``; n3 draining, n4 lost, n5 full."""
    with engine.begin() as connection:
        fast = connection.execute(
            insert(t.instance_group)
            .values(name="fast", max_concurrent_jobs=3, max_forks=40)
            .returning(t.instance_group.c.id)
        ).scalar_one()
        n1 = make_node(connection, "n1", version="1.2")
        make_node(connection, "n2", capacity=50, groups=(fast, default_group(connection)))
        make_node(connection, "n3", draining=True)
        make_node(connection, "n4", state="lost")
        make_node(connection, "n5", accepting=False, not_accepting_reason="disk full")
        make_node(connection, "gone", removed=text("dispatcher_now()"))
        make_job(connection, status="running", node_id=n1, task_impact=30)
        make_job(connection, status="waiting", node_id=n1, task_impact=5)
        make_job(connection, status="successful", node_id=n1, instance_group_id=1)
        make_job(connection)
        make_job(
            connection,
            preferred_groups=[fast],
            pending_reason={"code": "no_capacity", "data": {}},
            created=text("dispatcher_now() - interval '90 s'"),
        )
    return api


def _by_name(answer: Any, name: str = "hostname") -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return {each[name]: each for each in answer.json()["results"]}


def test_nodes_say_what_they_hold_and_why_they_do_not_take_jobs(cluster: Api) -> None:
    nodes = _by_name(cluster.http.get("/api/v2/instances/"))
    assert list(nodes) == ["n1", "n2", "n3", "n4", "n5"]
    shown = {
        name: (
            node["capacity"],
            node["consumed_capacity"],
            node["percent_capacity_remaining"],
            node["jobs_running"],
            node["jobs_total"],
            node["node_state"],
            node["takes_jobs"],
        )
        for name, node in nodes.items()
    }
    assert shown == {
        "n1": (100, 35, 65.0, 2, 3, "ready", True),
        "n2": (50, 0, 100.0, 0, 0, "ready", True),
        "n3": (0, 0, 0.0, 0, 0, "ready", False),
        "n4": (0, 0, 0.0, 0, 0, "unavailable", False),
        "n5": (100, 0, 100.0, 0, 0, "ready", False),
    }
    assert nodes["n3"]["errors"] == "it is being drained"
    assert nodes["n5"]["errors"] == "disk full"
    assert "lost" in nodes["n4"]["errors"]
    assert (nodes["n1"]["errors"], nodes["n1"]["version"]) == ("", "1.2")
    one = cluster.http.get(nodes["n1"]["url"])
    assert one.json() == nodes["n1"]


def test_a_removed_node_is_gone(cluster: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        node_id = connection.scalar(text("SELECT id FROM node WHERE name = 'gone'"))
    assert cluster.http.get(f"/api/v2/instances/{node_id}/").status_code == 404


def test_nodes_can_be_filtered(cluster: Api) -> None:
    path = "/api/v2/instances/"
    assert list(_by_name(cluster.http.get(path, params={"hostname": "n2"}))) == ["n2"]
    assert list(_by_name(cluster.http.get(path, params={"search": "N3"}))) == ["n3"]
    assert [*_by_name(cluster.http.get(path, params={"order_by": "-hostname"}))][:1] == ["n5"]
    assert cluster.http.get(path, params={"capacity": "1"}).status_code == 400


def test_groups_say_what_their_nodes_hold(cluster: Api) -> None:
    groups = _by_name(cluster.http.get("/api/v2/instance_groups/"), "name")
    default, fast = groups["default"], groups["fast"]
    assert (default["capacity"], default["consumed_capacity"]) == (250, 35)
    assert (default["percent_capacity_remaining"], default["instances"]) == (86.0, 5)
    assert (default["jobs_running"], default["jobs_total"]) == (2, 3)
    assert (fast["capacity"], fast["max_concurrent_jobs"], fast["max_forks"]) == (50, 3, 40)
    assert fast["is_container_group"] is False
    assert cluster.http.get(fast["url"]).json() == fast
    members = _by_name(cluster.http.get(fast["related"]["instances"]))
    assert list(members) == ["n2"]


def test_ping_needs_no_token_and_shows_the_cluster(cluster: Api) -> None:
    body = cluster.anonymous.get("/api/v2/ping/").json()
    assert body["ha"] is True
    assert [node["node"] for node in body["instances"]] == ["n1", "n2", "n3", "n4", "n5"]
    groups = {group["name"]: group for group in body["instance_groups"]}
    assert groups["fast"] == {"name": "fast", "capacity": 50, "instances": ["n2"]}
    assert groups["default"]["capacity"] == 250


def _samples(text: str) -> dict[str, float]:
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_metrics_show_what_to_scale_by(cluster: Api) -> None:
    answer = cluster.http.get("/api/v2/metrics/")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = _samples(answer.text)
    assert found['dispatcher_jobs_pending{group="default",reason="not_considered"}'] == 1
    assert found['dispatcher_jobs_pending{group="fast",reason="no_capacity"}'] == 1
    assert found['dispatcher_oldest_pending_seconds{group="fast"}'] >= 90
    assert found['dispatcher_capacity_free{group="default"}'] == 115
    assert found['dispatcher_capacity_free{group="fast"}'] == 50
    assert found['dispatcher_jobs_running{node="n1"}'] == 1
    assert found['dispatcher_jobs_running{node="n2"}'] == 0
    assert found['dispatcher_jobs_active{node="n1",status="waiting"}'] == 1
    assert found['dispatcher_node_takes_jobs{node="n3"}'] == 0


def test_metrics_count_requests_by_route_not_by_path(cluster: Api) -> None:
    for path in ("/api/v2/jobs/1/", "/api/v2/jobs/2", "/api/v2/jobs/999/", "/no/such/path"):
        cluster.http.get(path)
    cluster.http.request("BREW", "/api/v2/jobs/1/")
    found = _samples(cluster.http.get("/api/v2/metrics/").text)
    name = 'dispatcher_http_requests_total{{code="{}",method="{}",route="{}"}}'
    assert found[name.format(200, "GET", "/api/v2/jobs/{job_id}/")] >= 2
    assert found[name.format(404, "GET", "/api/v2/jobs/{job_id}/")] >= 1
    assert found[name.format(404, "GET", "unmatched")] >= 1
    assert any('method="other"' in sample for sample in found)
    assert not any(re.search(r'route="[^"]*/\d+', sample) for sample in found)
    assert found['dispatcher_http_request_seconds_count{route="/api/v2/jobs/{job_id}/"}'] >= 3


def test_probes_name_what_they_tried(api: Api) -> None:
    assert api.anonymous.get("/healthz").json() == {"status": "ok"}
    ready = api.anonymous.get("/readyz")
    assert ready.status_code == 200
    assert ready.json() == {"status": "ok", "database": "ok", "schema": "ok", "broker": "ok"}


def test_a_schema_that_does_not_fit_is_named(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE schema_info SET min_code = 999"))
    ready = api.anonymous.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["database"] == "ok"
    assert "999" in ready.json()["schema"]


def test_the_server_s_own_metrics_need_no_token_and_say_nothing_of_the_cluster(api: Api) -> None:
    api.http.get("/api/v2/ping/")
    answer = api.anonymous.get("/metrics")
    assert answer.status_code == 200
    assert 'route="/api/v2/ping/"' in answer.text
    assert "dispatcher_jobs_pending" not in answer.text
