"""v1's playbooks, runs and events: every line of the route tables, and what the old service got wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import Engine, select, text

from dispatcher import health
from dispatcher.api.v1.routes import ROUTES
from dispatcher.db import tables as t
from dispatcher.errors import Unavailable
from dispatcher.settings import Settings
from tests.acted_runs import RUNS, finish, job_of, result, started, store, task
from tests.api_server import Api, as_process, client, start_process
from tests.factories import make_job
from tests.runner_service import HELLO, UNKNOWN, make_root, said, serving
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def settings(v1_settings: Settings) -> Settings:
    return v1_settings


@pytest.fixture(scope="module")
def engine(v1_engine: Engine) -> Engine:
    return v1_engine


@pytest.fixture
def root(data_dir: Path) -> Path:
    return make_root(data_dir / "root")


@pytest.fixture(scope="module")
def v1(settings: Settings, engine: Engine) -> Iterator[httpx.Client]:
    """One server for all tests that leave its root as it is."""
    with serving(settings, engine, make_root(settings.data_dir / "root")) as (http, _):
        yield http


@pytest.fixture
def own(settings: Settings, engine: Engine, root: Path) -> Iterator[httpx.Client]:
    """A server with a root of its own."""
    with serving(settings, engine, root) as (http, _):
        yield http


# -- switch and root


def test_v1_is_off_until_it_is_switched_on(api: Api) -> None:
    assert api.anonymous.get("/api/v1/playbooks").json() == {"detail": "Not found."}


def test_switched_on_without_a_root_it_makes_one(settings: Settings, engine: Engine) -> None:
    with serving(settings, engine, None, v1=True) as (http, _):
        root = settings.data_dir / "runner-service"
        assert (root / "env" / "ssh_key").stat().st_mode & 0o777 == 0o600
        assert (root / "env" / "ssh_key.pub").read_text().startswith("ssh-ed25519 ")
        assert said(http.get(RUNS)) == (200, "OK", "0 playbook found", {"playbooks": []})


def test_nothing_is_written_to_the_accounts_own_authorized_keys(
    settings: Settings, engine: Engine, data_dir: Path
) -> None:
    home, root = data_dir / "home", data_dir / "fresh"
    home.mkdir()
    given = settings.model_copy(update={"v1_root": root, "log_level": "error"})
    with as_process(given, engine, HOME=str(home)) as api:
        assert said(api.anonymous.get(RUNS))[0] == 200
    assert (root / "env" / "ssh_key").is_file()
    assert list(home.iterdir()) == []


def test_the_old_configuration_is_read_and_its_other_names_are_logged(
    settings: Settings, engine: Engine, root: Path
) -> None:
    old = root / "config.yaml"
    old.write_text(f"playbooks_root_dir: {root}\nrunner_cache_size: 5\nssh_checks: false\n")
    with serving(settings, engine, None, v1_config=old) as (http, _):
        assert said(http.get(RUNS))[3] == {"playbooks": ["hello.yml"]}


# -- playbooks


def test_playbooks_are_listed(own: httpx.Client, root: Path) -> None:
    (root / "project" / "another.yml").write_text(HELLO)
    (root / "project" / "roles").mkdir()
    (root / "project" / "no.yaml").write_text(HELLO)
    data = {"playbooks": ["another.yml", "hello.yml"]}
    assert said(own.get(RUNS)) == (200, "OK", "2 playbook found", data)


def test_a_run_takes_limit_check_tags_variables_inventory_and_key(
    own: httpx.Client, engine: Engine, root: Path
) -> None:
    path = "hello.yml/tags/one,Two2?limit=osd1,osd2&check=TRUE"
    job = job_of(engine, started(own, path, json={"a": {"b": [1, "x"]}}))
    assert (job.limit_pattern, job.check_mode, job.tags) == ("osd1,osd2", True, ["one", "Two2"])
    assert (job.extra_vars, job.playbook) == ({"a": {"b": [1, "x"]}}, "hello.yml")
    assert (job.organization, job.launched_by) == ("runner-service", "runner-service")
    assert f"ansible_ssh_private_key_file: {root}/env/ssh_key" in job.inventory
    assert "ansible_port: 2222" in job.inventory


def test_check_is_false_for_anything_but_true(v1: httpx.Client, engine: Engine) -> None:
    assert not job_of(engine, started(v1, "hello.yml?check=1")).check_mode


def test_a_content_type_with_a_suffix_is_taken(v1: httpx.Client) -> None:
    started(
        v1, json=None, content=b"{}", headers={"Content-Type": "application/json; charset=UTF-8"}
    )


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("path", "options", "expected"),
    [
        (
            "hello.yml",
            {"content": b"{}", "headers": {"Content-Type": "text/plain"}},
            (415, "UNSUPPORTED", "Invalid content-type(text/plain). Use application/json"),
        ),
        (
            "hello.yml",
            {"content": b"{}"},
            (415, "UNSUPPORTED", "Invalid content-type(None). Use application/json"),
        ),
        (
            "hello.yml",
            {"content": b"{", "headers": JSON},
            (400, "INVALID", "Failed to decode JSON object: "),
        ),
        (
            "hello.yml",
            {"content": b"", "headers": JSON},
            (400, "INVALID", "Failed to decode JSON object: "),
        ),
        ("hello.yml", {"json": [1, 2]}, (400, "INVALID", "the extra variables must be")),
        ("hello.yml", {"json": {"environment-": 1}}, (400, "INVALID", "extra_vars: ")),
        (
            "hello.yml?forks=3",
            {"json": {}},
            (400, "INVALID", "Bad request, supported filters are: limit,check"),
        ),
        (
            "hello.yml?limit=osds",
            {"json": {}},
            (400, "INVALID", "Host(s) provided not in Ansible inventory"),
        ),
        (
            "hello.yml?limit=",
            {"json": {}},
            (400, "INVALID", "Host(s) provided not in Ansible inventory"),
        ),
        (
            "hello.yml?limit=osd1,all",
            {"json": {}},
            (400, "INVALID", "Host(s) provided not in Ansible inventory"),
        ),
        ("none.yml", {"json": {}}, (404, "NOTFOUND", "playbook file not found")),
        ("..", {"json": {}}, (404, "NOTFOUND", "The requested URL")),
        ("%2e%2e%5cx", {"json": {}}, (404, "NOTFOUND", "playbook file not found")),
        ("%2e%2e", {"json": {}}, (404, "NOTFOUND", "playbook file not found")),
        ("hello.yml%00", {"json": {}}, (404, "NOTFOUND", "playbook file not found")),
        ("-e.yml", {"json": {}}, (404, "NOTFOUND", "playbook file not found")),
        ("hello.yml/tags/a-b", {"json": {}}, (400, "INVALID", "Invalid tag syntax")),
        ("hello.yml/tags/a,", {"json": {}}, (400, "INVALID", "Invalid tag syntax")),
        ("hello.yml/tags/a%0a", {"json": {}}, (400, "INVALID", "Invalid tag syntax")),
        ("hello.yml/tags/", {"json": {}}, (404, "NOTFOUND", "The requested URL")),
    ],
)
def test_a_run_is_refused_with_the_old_words(
    v1: httpx.Client, path: str, options: dict[str, Any], expected: tuple[int, str, str]
) -> None:
    code, status, msg, data = said(v1.post(f"{RUNS}/{path}", **options))
    assert (code, status, data) == (*expected[:2], {})
    assert msg.startswith(expected[2])


def test_a_playbook_that_links_out_of_the_root_is_not_found(own: httpx.Client, root: Path) -> None:
    (root / "outside.yml").write_text(HELLO)
    (root / "project" / "link.yml").symlink_to("../outside.yml")
    assert said(own.post(f"{RUNS}/link.yml", json={}))[:3] == (
        404,
        "NOTFOUND",
        "playbook file not found",
    )


def test_a_changed_playbook_is_packed_within_a_second_and_an_unchanged_one_is_not(
    own: httpx.Client, engine: Engine, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.api.v1.root_bundle.LOOK_EVERY", 0.0)
    first = job_of(engine, started(own)).bundle_digest
    assert job_of(engine, started(own)).bundle_digest == first
    (root / "project" / "hello.yml").write_text(HELLO + "  - debug: {msg: more}\n")
    assert job_of(engine, started(own)).bundle_digest != first


def test_between_two_looks_the_root_is_not_read(
    own: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.api.v1.root_bundle.LOOK_EVERY", 1000.0)
    started(own)

    def never(tree: Path) -> bytes:
        raise AssertionError("looked")

    monkeypatch.setattr("dispatcher.api.v1.root_bundle.signature_of", never)
    started(own)


def test_a_playbook_that_is_newer_than_the_last_look_is_packed_all_the_same(
    own: httpx.Client, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.api.v1.root_bundle.LOOK_EVERY", 1000.0)
    started(own)
    (root / "project" / "new.yml").write_text(HELLO)
    started(own, "new.yml")


def test_a_file_of_variables_that_another_process_wrote_is_in_the_next_run(
    own: httpx.Client,
    settings: Settings,
    engine: Engine,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dispatcher.api.v1.root_bundle.LOOK_EVERY", 1000.0)
    before = job_of(engine, started(own)).bundle_digest
    with serving(settings, engine, root) as (other, _):
        assert said(other.post("/api/v1/groupvars/osds", json={"a": 1}))[0] == 200
    assert job_of(engine, started(own)).bundle_digest != before


def test_a_bundle_that_was_removed_is_stored_again(own: httpx.Client, engine: Engine) -> None:
    started(own)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM job"))
        connection.execute(text("DELETE FROM content_chunk"))
        connection.execute(text("DELETE FROM content_bundle"))
    started(own)


def test_an_empty_an_ini_and_a_broken_inventory_are_read_for_what_they_are(
    own: httpx.Client, engine: Engine, root: Path
) -> None:
    hosts = root / "inventory" / "hosts"
    hosts.write_text("")
    started(own)
    hosts.write_text("[web]\nw1 a=1\n")
    inventory = job_of(engine, started(own, "hello.yml?limit=w1")).inventory
    assert inventory.startswith("[web]\nw1 a=1\n\n[all:vars]\n")
    hosts.write_text("all: [\n")
    code, status, msg, _ = said(own.post(f"{RUNS}/hello.yml", json={}))
    assert (code, status) == (400, "INVALID")
    assert msg.startswith("the inventory cannot be read: ")


# -- status


def test_a_queued_run_is_running_and_empty(v1: httpx.Client) -> None:
    data = {
        "task": None,
        "task_metadata": {"created": "", "play_pattern": "", "task_path": "", "task_action": ""},
        "role": "",
        "last_task_num": None,
        "skipped": 0,
        "failed": 0,
        "ok": 0,
        "failures": {},
    }
    uuid = started(v1)
    assert said(v1.get(f"{RUNS}/{uuid}")) == (200, "OK", "running", data)
    assert said(v1.get(f"/api/v1/jobs/{uuid}/events")) == (
        200,
        "OK",
        "",
        {"events": {}, "total_events": 0},
    )


def test_status_has_counters_task_metadata_and_last_failures(
    v1: httpx.Client, engine: Engine
) -> None:
    uuid = started(v1)
    store(engine, uuid, task("first"), result("ok", "osd1"), result("skipped", "osd2"))
    store(engine, uuid, result("failed", "osd2"), result("failed", "osd1", ignore_errors=True))
    store(
        engine,
        uuid,
        task("unseen"),
        result("failed", "osd2"),
        task("second"),
        result("ok", "osd1"),
        result("failed", "osd2", "second"),
    )
    code, status, msg, data = said(v1.get(f"{RUNS}/{uuid}"))
    assert (code, status, msg) == (200, "OK", "running")
    assert (data["task"], data["last_task_num"], data["role"]) == ("second", 10, "")
    assert (data["ok"], data["failed"], data["skipped"]) == (2, 3, 1)
    assert data["task_metadata"]["task_action"] == "debug"
    assert re.match(r"\d{4}-\d\d-\d\dT", data["task_metadata"]["created"])
    assert list(data["failures"]) == ["osd2"]
    assert data["failures"]["osd2"]["counter"] == 10
    assert data["failures"]["osd2"]["event_data"]["task"] == "second"


@pytest.mark.parametrize(
    ("status", "outcome", "word"),
    [
        ("successful", "successful", "successful"),
        ("failed", "failed_hosts", "failed"),
        ("failed", "timeout", "timeout"),
        ("error", "node_lost", "failed"),
        ("canceled", "canceled", "canceled"),
    ],
)
def test_the_word_and_the_summary_of_an_ended_run(
    v1: httpx.Client, engine: Engine, status: str, outcome: str, word: str
) -> None:
    uuid = started(v1)
    store(engine, uuid, task("only"), result("ok", "osd1"))
    finish(engine, uuid, status, outcome)
    code, answered, msg, data = said(v1.get(f"{RUNS}/{uuid}"))
    assert (code, answered, msg, data["ok"], data["task"]) == (200, "OK", word, 1, "only")


@pytest.mark.parametrize("uuid", [UNKNOWN, "x", "..%2e", "%2e%2e", UNKNOWN.upper(), "a%00b"])
def test_an_unknown_run_is_not_found(v1: httpx.Client, uuid: str) -> None:
    shown = httpx.URL(f"http://x/{uuid}").path[1:]
    assert said(v1.get(f"{RUNS}/{uuid}")) == (
        404,
        "NOTFOUND",
        f"Playbook with UUID {shown} not found",
        {},
    )
    assert said(v1.delete(f"{RUNS}/{uuid}")) == (
        404,
        "NOT ACTIVE",
        f"playbook with uuid {shown} is not active",
        {},
    )
    expected = (404, "NOTFOUND", "playbook uuid given does not exist", {})
    assert said(v1.get(f"/api/v1/jobs/{uuid}/events")) == expected
    assert said(v1.get(f"/api/v1/jobs/{uuid}/events/1-a")) == expected


def test_a_job_that_v1_did_not_launch_is_none_of_its(v1: httpx.Client, engine: Engine) -> None:
    with engine.begin() as connection:
        job = make_job(connection)
        uuid = connection.scalar(select(t.job.c.uuid).where(t.job.c.id == job))
    assert said(v1.get(f"{RUNS}/{uuid}"))[0] == 404
    assert said(v1.delete(f"{RUNS}/{uuid}"))[0] == 404


# -- cancel


def test_a_run_is_canceled_and_then_not_active(v1: httpx.Client) -> None:
    uuid = started(v1)
    assert said(v1.delete(f"{RUNS}/{uuid}")) == (200, "OK", "Cancel request issued", {})
    assert said(v1.get(f"{RUNS}/{uuid}"))[2] == "canceled"
    assert said(v1.delete(f"{RUNS}/{uuid}"))[:2] == (404, "NOT ACTIVE")


def test_the_cancel_of_a_running_run_may_be_asked_again(v1: httpx.Client, engine: Engine) -> None:
    uuid = started(v1)
    store(engine, uuid, task("a"))
    for _ in range(2):
        assert said(v1.delete(f"{RUNS}/{uuid}")) == (200, "OK", "Cancel request issued", {})
    assert said(v1.get(f"{RUNS}/{uuid}"))[2] == "running"
    assert job_of(engine, uuid).cancel_requested


def test_a_cancel_without_a_uuid_is_answered_in_the_envelope(v1: httpx.Client) -> None:
    assert said(v1.delete(f"{RUNS}/"))[:2] == (404, "NOTFOUND")


# -- events


@pytest.fixture
def run(v1: httpx.Client, engine: Engine) -> str:
    """A run with eight events."""
    uuid = started(v1)
    store(
        engine,
        uuid,
        {"event": "verbose", "stdout": "a warning"},
        {"event": "playbook_on_start", "event_data": {"playbook": "hello.yml"}},
        task("Step 1"),
        result("ok", "osd1", "Step 1"),
        result("failed", "osd2", "Step 1"),
        task("Step 2"),
        result("ok", "osd1", "Step 2", role="web"),
        {"event": "playbook_on_stats", "event_data": {"ok": {"osd1": 2}}},
    )
    return f"/api/v1/jobs/{uuid}/events"


def names(answer: httpx.Response) -> list[str]:
    code, status, msg, data = said(answer)
    assert (code, status, msg) == (200, "OK", "")
    assert data["total_events"] == len(data["events"])
    return [f"{key.split('-')[0]} {event['event']}" for key, event in data["events"].items()]


def test_events_are_listed_by_counter_and_uuid_in_order(v1: httpx.Client, run: str) -> None:
    data = said(v1.get(run))[3]
    assert data["total_events"] == 8
    assert [int(key.split("-", 1)[0]) for key in data["events"]] == list(range(1, 9))
    first, *_, ok, _ = data["events"].items()
    assert first[1] == {"event": "verbose"}
    assert ok[1]["host"] == "osd1"
    assert ok[1]["task"] == "Step 2"
    UUID(first[0].split("-", 1)[1])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("event=runner_on_ok", ["1 verbose", "4 runner_on_ok", "7 runner_on_ok"]),
        ("task=Step 1", ["1 verbose", "4 runner_on_ok", "5 runner_on_failed"]),
        ("task=Step 1&host=osd2", ["1 verbose", "5 runner_on_failed"]),
        ("msg=words&event=runner_on_failed", ["1 verbose", "5 runner_on_failed"]),
        ("event=playbook_on_stats", ["1 verbose"]),
        ("rc=1", ["1 verbose"]),
        ("anything=at all", ["1 verbose"]),
        ("since=6", ["7 runner_on_ok", "8 playbook_on_stats"]),
    ],
)
def test_events_are_filtered(v1: httpx.Client, run: str, query: str, expected: list[str]) -> None:
    assert names(v1.get(f"{run}?{query}")) == expected


@pytest.mark.parametrize("query", ["x=%00", "%00=x", "task=%ff", "res=", "a%27=%27;--", "=", "%"])
def test_odd_filters_are_no_fault(v1: httpx.Client, run: str, query: str) -> None:
    assert said(v1.get(f"{run}?{query}"))[0] == 200


def test_a_list_that_has_not_changed_is_not_sent_again(
    v1: httpx.Client, run: str, engine: Engine
) -> None:
    tag = v1.get(run).headers["ETag"]
    answer = v1.get(run, headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content) == (304, b"")
    store(engine, run.split("/")[4], result("ok", "osd1"))
    assert v1.get(run, headers={"If-None-Match": tag}).status_code == 200


def test_one_event_is_raw(v1: httpx.Client, run: str) -> None:
    key = list(said(v1.get(run))[3]["events"])[3]
    code, status, msg, event = said(v1.get(f"{run}/{key}"))
    assert (code, status, msg) == (200, "OK", "")
    assert (event["counter"], event["event"], event["pid"]) == (4, "runner_on_ok", 0)
    assert event["uuid"] == key.split("-", 1)[1]
    assert event["stdout"] == "\x1b[0;32mok: [osd1]\x1b[0m"
    assert event["event_data"]["res"] == {"rc": 1, "msg": "words"}
    assert event["runner_ident"] in run


def test_an_event_without_data_has_empty_data(v1: httpx.Client, run: str) -> None:
    key = next(iter(said(v1.get(run))[3]["events"]))
    assert said(v1.get(f"{run}/{key}"))[3]["event_data"] == {}


@pytest.mark.parametrize("key", ["99-x", "1-x", "noDash", "x-1", "1" * 30 + "-x", "4-%00", "-"])
def test_an_unknown_event_is_not_found(v1: httpx.Client, run: str, key: str) -> None:
    assert said(v1.get(f"{run}/{key}")) == (404, "NOTFOUND", "Event not found", {})


# -- runs of the old service

OLD_EVENTS = {
    "1-aa": {"event": "playbook_on_start", "event_data": {"playbook": "x"}},
    "2-bb": {"event": "verbose", "stdout": "w"},
    "10-cc": {"event": "runner_on_ok", "event_data": {"host": "h", "task": "t", "res": {"a": "b"}}},
}


@pytest.fixture
def old_run(settings: Settings, v1: httpx.Client) -> Iterator[Path]:
    assert v1
    directory = settings.data_dir / "root" / "artifacts" / UNKNOWN
    (directory / "job_events").mkdir(parents=True)
    for key, event in OLD_EVENTS.items():
        (directory / "job_events" / f"{key}.json").write_text(json.dumps(event))
    (directory / "job_events" / "3-dd-partial.json").write_text("{}")
    (directory / "job_events" / "4-ee.json").write_text("{")
    yield directory
    shutil.rmtree(directory)


def test_how_a_run_of_the_old_service_ended_is_read(v1: httpx.Client, old_run: Path) -> None:
    words = "The artifacts directory is incomplete!"
    assert said(v1.get(f"{RUNS}/{UNKNOWN}")) == (404, "UNKNOWN", words, {})
    (old_run / "status").write_text("successful")
    assert said(v1.get(f"{RUNS}/{UNKNOWN}")) == (200, "OK", "successful", {})
    assert said(v1.delete(f"{RUNS}/{UNKNOWN}"))[:2] == (404, "NOT ACTIVE")


def test_events_of_a_run_of_the_old_service_are_read(v1: httpx.Client, old_run: Path) -> None:
    url = f"/api/v1/jobs/{UNKNOWN}/events"
    assert said(v1.get(url))[3]["events"] == {
        "1-aa": {"event": "playbook_on_start"},
        "2-bb": {"event": "verbose"},
        "10-cc": {"event": "runner_on_ok", "host": "h", "task": "t"},
    }
    assert names(v1.get(f"{url}?a=b")) == ["2 verbose", "10 runner_on_ok"]
    assert names(v1.get(f"{url}?a=c&since=1")) == ["2 verbose"]
    assert said(v1.get(f"{url}/10-cc"))[3] == OLD_EVENTS["10-cc"]
    assert said(v1.get(f"{url}/2-bb"))[3]["event_data"] == {}
    shutil.rmtree(old_run / "job_events")
    assert names(v1.get(url)) == []
    for key in ("4-ee", "x", "../../../env/ssh_key", "1-..%2f"):
        assert said(v1.get(f"{url}/{key}"))[0] == 404


# -- the envelope


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/api/v1/playbooks", "GET"),
        ("PATCH", "/api/v1/playbooks/x", "DELETE, GET, POST"),
        ("POST", "/api/v1/jobs/x/events", "GET"),
        ("DELETE", "/api", "GET"),
    ],
)
def test_a_wrong_method_is_answered_in_the_envelope(
    v1: httpx.Client, method: str, path: str, allowed: str
) -> None:
    answer = v1.request(method, path)
    words = "The method is not allowed for the requested URL."
    assert said(answer) == (405, "INVALID", words, {})
    assert answer.headers["Allow"] == allowed


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/", "/api/v1/x", "/api/v1//playbooks"])
def test_an_unknown_url_is_answered_in_the_envelope(v1: httpx.Client, path: str) -> None:
    assert said(v1.get(path))[:2] == (404, "NOTFOUND")


def test_a_body_that_is_too_large_is_refused(
    settings: Settings, engine: Engine, root: Path
) -> None:
    with serving(settings, engine, root, max_body_bytes=1000) as (http, _):
        assert said(http.post(f"{RUNS}/hello.yml", json={"a": "x" * 2000}))[:2] == (400, "INVALID")


def test_a_fault_of_ours_is_an_envelope_without_words_of_ours(
    v1: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret words")

    monkeypatch.setattr("dispatcher.db.run_summaries.read", broken)
    code, status, msg, _ = said(v1.get(f"{RUNS}/{UNKNOWN}"))
    assert (code, status) == (500, "FAILED")
    assert "secret" not in msg


def test_while_the_database_is_away_clients_are_told_to_ask_again(
    v1: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise Unavailable("the database is not available")

    monkeypatch.setattr("dispatcher.db.run_summaries.read", away)
    answer = v1.get(f"{RUNS}/{UNKNOWN}")
    assert said(answer) == (503, "UNKNOWN", "the database is not available", {})
    assert answer.headers["Retry-After"] == "5"


def test_too_many_parameters_are_refused(v1: httpx.Client, run: str) -> None:
    query = "&".join(f"a{number}=x" for number in range(200))
    assert said(v1.get(f"{run}?{query}"))[:2] == (400, "INVALID")


def test_variables_of_a_run_are_not_in_the_log(
    settings: Settings, engine: Engine, root: Path
) -> None:
    process = start_process(settings.model_copy(update={"v1_root": root, "log_level": "debug"}))
    try:
        here = wait_until(
            lambda: (s := health.read(settings.data_dir, "api")) and s.pid == process.pid and s.url,
            what="the server has said where it listens",
        )
        with client(str(here), None) as http:
            started(http, json={"password": "a-secret-of-mine"})
            http.post(f"{RUNS}/hello.yml", json={"-": "a-secret-of-mine"})
            http.post("/api/v1/groupvars/osds", json={"password": "a-secret-of-mine"})
    finally:
        process.terminate()
        _, log = process.communicate(timeout=10)
    assert b"job_launched" in log
    assert b"a-secret-of-mine" not in log


def test_the_page_about_the_api_names_every_route(v1: httpx.Client) -> None:
    answer = v1.get("/api")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "/api/v1/playbooks/{playbook}/tags/{tags}" in answer.text
    assert v1.get("/api/").json() != answer.text


def test_v2_is_there_beside_it(v1: httpx.Client) -> None:
    assert v1.get("/api/v2/ping/").status_code == 200


def test_several_processes_answer_alike(settings: Settings, engine: Engine, root: Path) -> None:
    with serving(settings, engine, root) as (one, _), serving(settings, engine, root) as (two, _):
        uuid = started(one)
        assert said(two.get(f"{RUNS}/{uuid}")) == said(one.get(f"{RUNS}/{uuid}"))
        assert said(two.delete(f"{RUNS}/{uuid}"))[0] == 200
        assert said(one.get(f"{RUNS}/{uuid}"))[2] == "canceled"


def test_three_processes_one_of_them_killed_lose_no_run(
    settings: Settings, engine: Engine, root: Path, data_dir: Path
) -> None:
    def process(number: int) -> Any:
        own = data_dir / f"p{number}"
        own.mkdir()
        changes = {"v1_root": root, "data_dir": own, "key_file": settings.data_dir / "cluster.key"}
        return as_process(settings.model_copy(update=changes), engine)

    with ExitStack() as stack:
        apis = [stack.enter_context(process(number)) for number in range(3)]
        runs = [started(apis[n % 3].anonymous) for n in range(7)]
        assert apis[2].process is not None
        apis[2].process.kill()
        runs += [started(apis[n % 2].anonymous) for n in range(4)]
        for api in apis[:2]:
            for uuid in runs:
                assert said(api.anonymous.get(f"{RUNS}/{uuid}"))[:3] == (200, "OK", "running")
                assert said(api.anonymous.get(f"/api/v1/jobs/{uuid}/events"))[0] == 200


# -- who may call


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Host": "[x"},
        {"Origin": "null"},
    ],
)
def test_a_name_that_is_not_loopback_is_refused(v1: httpx.Client, headers: dict[str, str]) -> None:
    assert said(v1.get(RUNS, headers=headers))[:2] == (403, "FORBIDDEN")


@pytest.mark.parametrize("host", ["localhost:50001", "127.0.0.1", "[::1]:5001"])
def test_names_of_loopback_are_served(v1: httpx.Client, host: str) -> None:
    assert said(v1.get(RUNS, headers={"Host": host}))[0] == 200


def test_with_tokens_every_route_wants_one(settings: Settings, engine: Engine, root: Path) -> None:
    with serving(settings, engine, root, v1_auth="token") as (anonymous, api):
        for route in ROUTES:
            path = re.sub(r"\{\w+\}", "x", route.template)
            assert said(anonymous.request(route.method, path))[:2] == (401, "NOAUTH")
        with client(api.url, "dsp_wrong") as wrong:
            assert said(wrong.get(RUNS))[:2] == (401, "NOAUTH")
        assert said(api.http.get(RUNS))[0] == 200
        assert job_of(engine, started(api.http)).launched_by == "tests"


def test_with_certificates_only_a_trusted_proxy_is_believed(
    settings: Settings, engine: Engine, root: Path
) -> None:
    header = {"X-SSL-Client-Verify": "SUCCESS"}
    with serving(settings, engine, root, v1_auth="certificate") as (http, _):
        assert said(http.get(RUNS))[:2] == (401, "NOAUTH")
        assert said(http.get(RUNS, headers={"X-SSL-Client-Verify": "NONE"}))[0] == 401
        assert said(http.get(RUNS, headers=header))[0] == 200
    changes = {"v1_auth": "certificate", "v1_trusted_proxies": "10.0.0.1"}
    with serving(settings, engine, root, **changes) as (http, _):
        assert said(http.get(RUNS, headers=header))[0] == 401


def test_variables_of_a_run_are_nowhere_in_the_root(own: httpx.Client, root: Path) -> None:
    started(own, json={"password": "a-secret-of-mine"})
    for directory, _, files in os.walk(root):
        for name in files:
            assert b"a-secret-of-mine" not in (Path(directory) / name).read_bytes()
