"""v1's additions under the name ``runs``: all that the old service was asked for in vain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import Engine, insert, select, text

from dispatcher.db import run_summaries
from dispatcher.db import tables as t
from dispatcher.settings import Settings
from tests.acted_runs import finish, job_of, result, started, store, task
from tests.factories import default_organization
from tests.runner_service import UNKNOWN, make_root, said, serving

RUNS = "/api/v1/runs"
OTHER = "[web]\nw1\nw2\n"


@pytest.fixture(scope="module")
def settings(v1_settings: Settings) -> Settings:
    return v1_settings


@pytest.fixture(scope="module")
def engine(v1_engine: Engine) -> Engine:
    return v1_engine


@pytest.fixture(scope="module")
def v1(settings: Settings, engine: Engine) -> Iterator[httpx.Client]:
    root = make_root(settings.data_dir / "root", {"inventories/other": OTHER})
    (root / "inventories" / "link").symlink_to("../env/ssh_key")
    with serving(settings, engine, root) as (http, _):
        yield http


def post(v1: httpx.Client, **fields: Any) -> str:
    """Post a run; its uuid."""
    code, status, msg, data = said(v1.post(RUNS, json={"playbook": "hello.yml", **fields}))
    assert (code, status, msg) == (202, "STARTED", "running")
    return str(UUID(data["play_uuid"]))


def test_a_run_takes_every_option(v1: httpx.Client, engine: Engine) -> None:
    uuid = post(
        v1,
        extra_vars={"a": 1},
        limit="osds:!osd2",
        tags=["a-b"],
        skip_tags=["slow_one"],
        check=True,
        forks=3,
        verbosity=2,
        timeout=60,
    )
    job = job_of(engine, uuid)
    assert (job.limit_pattern, job.tags, job.skip_tags) == ("osds:!osd2", ["a-b"], ["slow_one"])
    assert (job.check_mode, job.forks, job.verbosity, job.timeout) == (True, 3, 2, 60)
    assert (job.extra_vars, job.organization) == ({"a": 1}, "runner-service")
    assert "ansible_ssh_private_key_file" in job.inventory
    # and it is a run as any other
    assert said(v1.get(f"/api/v1/playbooks/{uuid}"))[:3] == (200, "OK", "running")


def test_a_run_takes_another_inventory_or_hosts_of_its_own(
    v1: httpx.Client, engine: Engine
) -> None:
    assert job_of(engine, post(v1, inventory="other", limit="w*")).inventory.startswith(OTHER)
    inventory = job_of(engine, post(v1, hosts=["a.example", "b"])).inventory
    assert "a.example" in inventory
    assert "osd1" not in inventory


def test_credentials_are_those_of_its_own_tenant_by_name(v1: httpx.Client, engine: Engine) -> None:
    with engine.begin() as connection:
        run_summaries.ensure_organization(connection)
        own = connection.scalar(
            select(t.organization.c.id).where(t.organization.c.name == "runner-service")
        )
        for organization, name in ((own, "deploy"), (default_organization(connection), "theirs")):
            row = {"organization_id": organization, "name": name, "kind": "ssh"}
            connection.execute(insert(t.credential).values(row | {"inputs": {"username": "x"}}))
    job = job_of(engine, post(v1, credentials=["deploy"]))
    assert "ansible_ssh_private_key_file" not in job.inventory
    with engine.begin() as connection:
        named = connection.scalar(
            text("SELECT name FROM job_credential WHERE job_id = :job"), {"job": job.id}
        )
    assert named == "deploy"
    code, status, msg, _ = said(
        v1.post(RUNS, json={"playbook": "hello.yml", "credentials": ["theirs"]})
    )
    assert (code, status, msg) == (400, "INVALID", "credentials: there is no 'theirs'")


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"playbook": "none.yml"}, 404, "playbook file not found"),
        ({"playbook": "../x.yml"}, 404, "playbook file not found"),
        ({"forks": "3"}, 400, "forks: "),
        ({"forks": 10**9}, 400, "forks: "),
        ({"verbosity": 9}, 400, "verbosity: "),
        ({"limit": "@/etc/hostname"}, 400, "limit: "),
        ({"tags": ["a,b"]}, 400, "tags: "),
        ({"unknown": 1}, 400, "unknown: "),
        ({"inventory": "none"}, 404, "inventory file not found"),
        ({"inventory": ".."}, 404, "inventory file not found"),
        ({"inventory": "link"}, 404, "inventory file not found"),
        ({"inventory": "other", "hosts": ["a"]}, 400, "hosts: "),
        ({"hosts": ["a[1:9]"]}, 400, "hosts: "),
        ({"credentials": ["none"]}, 400, "credentials: "),
        ({"extra_vars": []}, 400, "extra_vars: "),
    ],
)
def test_what_is_wrong_is_named(
    v1: httpx.Client, fields: dict[str, Any], code: int, words: str
) -> None:
    answer = said(v1.post(RUNS, json={"playbook": "hello.yml", **fields}))
    assert answer[0] == code
    assert answer[2].startswith(words)


@pytest.mark.parametrize("path", [RUNS, "/api/v1/playbooks/hello.yml"])
def test_the_same_request_with_the_same_key_is_the_same_run(v1: httpx.Client, path: str) -> None:
    body = {"playbook": "hello.yml"} if path == RUNS else {}
    headers = {"Idempotency-Key": f"key of {path}"}
    first, second = (v1.post(path, json=body, headers=headers) for _ in range(2))
    assert said(first)[:2] == (202, "STARTED")
    assert said(first) == said(second)
    other = {"extra_vars": {"a": 1}, **body} if path == RUNS else {"a": 1}
    assert said(v1.post(path, json=other, headers=headers))[:2] == (409, "LOCKED")
    assert said(v1.post(path, json=body, headers={"Idempotency-Key": "k" * 300}))[:2] == (
        400,
        "INVALID",
    )


def test_runs_are_listed_newest_first_page_by_page(v1: httpx.Client, engine: Engine) -> None:
    runs = [post(v1) for _ in range(3)] + [started(v1)]
    store(engine, runs[1], task("a"), result("ok", "osd1"))
    finish(engine, runs[1], "failed", "timeout")
    shown = said(v1.get(RUNS, params={"count": 3}))[3]["runs"]
    assert [each["play_uuid"] for each in shown] == runs[:0:-1]
    assert (shown[2]["status"], shown[2]["state"], shown[2]["ok"]) == ("timeout", "failed", 1)
    assert (shown[0]["status"], shown[0]["state"], shown[0]["playbook"]) == (
        "running",
        "pending",
        "hello.yml",
    )
    after = said(v1.get(RUNS, params={"count": 1, "before": shown[2]["play_uuid"]}))[3]["runs"]
    assert [each["play_uuid"] for each in after] == runs[:1]
    ended = said(v1.get(RUNS, params={"status": "timeout"}))[3]["runs"]
    assert [each["play_uuid"] for each in ended] == [runs[1]]


@pytest.mark.parametrize(
    "query", ["count=0", "count=x", "count=1001", "before=x", "status=no", "a=b", "before=%00"]
)
def test_a_list_is_asked_for_in_words_that_it_knows(v1: httpx.Client, query: str) -> None:
    assert said(v1.get(f"{RUNS}?{query}"))[:2] == (400, "INVALID")


def test_a_run_says_what_the_task_that_failed_said(v1: httpx.Client, engine: Engine) -> None:
    uuid = post(v1, limit="osds", forks=2)
    data = said(v1.get(f"{RUNS}/{uuid}"))[3]
    assert (data["failure"], data["limit"], data["forks"]) == (None, "osds", 2)
    store(engine, uuid, task("first"), result("failed", "osd2", "first"))
    store(engine, uuid, result("failed", "osd1", "second", res={"msg": "", "stderr": "no space"}))
    finish(engine, uuid, "failed", "failed_hosts")
    code, status, msg, data = said(v1.get(f"{RUNS}/{uuid}"))
    assert (code, status, msg, data["outcome"]) == (200, "OK", "failed", "failed_hosts")
    failure = data["failure"]
    assert (failure["host"], failure["task"], failure["msg"]) == ("osd1", "second", "no space")
    event = said(v1.get(f"/api/v1/jobs/{uuid}/events/{failure['event']}"))[3]
    assert event["event_data"]["res"]["stderr"] == "no space"


def test_the_output_of_a_run_is_text_and_goes_on_from_a_counter(
    v1: httpx.Client, engine: Engine
) -> None:
    uuid = post(v1)
    assert v1.get(f"{RUNS}/{uuid}/stdout").text == ""
    store(engine, uuid, task("a"), {"stdout": "one\ntwo"}, {"stdout": "\x1b[0;31mthree\x1b[0m"})
    answer = v1.get(f"{RUNS}/{uuid}/stdout")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text == "one\ntwo\n\x1b[0;31mthree\x1b[0m\n"
    assert answer.headers["X-Last-Counter"] == "3"
    assert v1.get(f"{RUNS}/{uuid}/stdout?since=2").text == "\x1b[0;31mthree\x1b[0m\n"
    assert said(v1.get(f"{RUNS}/{uuid}/stdout?since=x"))[:2] == (400, "INVALID")


@pytest.mark.parametrize("path", [UNKNOWN, "x", f"{UNKNOWN}/stdout", "%00"])
def test_a_run_that_is_not_there_is_not_found(v1: httpx.Client, path: str) -> None:
    assert said(v1.get(f"{RUNS}/{path}"))[:2] == (404, "NOTFOUND")


def test_the_body_of_a_run_is_described(v1: httpx.Client) -> None:
    described = json.loads(v1.get("/api/v1/openapi.json").text)["paths"][RUNS]["post"]
    schema = described["requestBody"]["content"]["application/json"]["schema"]
    assert {"forks", "verbosity", "skip_tags", "inventory", "hosts", "credentials"} <= set(
        schema["properties"]
    )
