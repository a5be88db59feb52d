"""``runs/``: launching, what is refused, and the same request again."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
import redis
from sqlalchemy import Engine, text

from dispatcher.api.v2.runs import RunBody
from dispatcher.domain.launch import RunRequest
from dispatcher.settings import Settings
from tests.api_server import Api, in_thread
from tests.factories import store_bundle
from tests.integration.api.conftest import Shared
from tests.racing import at_once

RUNS = "/api/v2/runs/"
FILES = {"site.yml": "- hosts: all\n", "deploy/site.yml": "- hosts: all\n"}


def _bundle(engine: Engine) -> str:
    with engine.begin() as connection:
        return store_bundle(connection, FILES)


def _run(digest: str, **more: Any) -> dict[str, Any]:
    return {"playbook": "site.yml", "bundle_digest": digest, "inventory": "localhost\n"} | more


def _jobs(engine: Engine) -> int:
    with engine.begin() as connection:
        return int(connection.scalar(text("SELECT count(*) FROM job")) or 0)


@pytest.fixture(scope="module")
def digest(shared: Shared) -> str:
    return _bundle(shared.engine)


def test_a_run_becomes_a_pending_job(shared: Shared, digest: str) -> None:
    asked = _run(
        digest,
        name="deploy",
        limit="local*",
        extra_vars={"version": "1.2"},
        secret_vars={"password": "hunter2"},
        tags=["a"],
        forks=3,
        priority=2,
        max_failed=1,
        max_unreachable="10%",
    )
    answer = shared.api.http.post(RUNS, json=asked)
    assert answer.status_code == 201, answer.text
    job = answer.json()
    assert answer.headers["Location"] == job["url"] == f"/api/v2/jobs/{job['id']}/"
    assert (job["status"], job["name"], job["launched_by"]["name"]) == (
        "pending",
        "deploy",
        "tests",
    )
    assert (job["max_failed"], job["max_unreachable"], job["job_tags"]) == ("1", "10%", "a")
    assert json.loads(job["extra_vars"]) == {"version": "1.2"}
    assert "hunter2" not in answer.text
    again = shared.api.http.get(job["url"]).json()
    assert {**again, "elapsed": 0, "pending_reason": None, "job_explanation": ""} == {
        **job,
        "elapsed": 0,
    }


def test_the_body_has_exactly_the_fields_of_a_run_request() -> None:
    assert list(RunBody.model_fields) == list(RunRequest.__dataclass_fields__)
    body = RunBody(playbook="p", bundle_digest="d", inventory="i")
    assert body.request() == RunRequest(playbook="p", bundle_digest="d", inventory="i")


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"playbook": "nope.yml"}, "playbook"),
        ({"playbook": "../site.yml"}, "playbook"),
        ({"playbook": "deploy/../../site.yml"}, "playbook"),
        ({"playbook": "/etc/passwd"}, "playbook"),
        ({"playbook": ""}, "playbook"),
        ({"playbook": 7}, "playbook"),
        ({"playbook": "-v"}, "playbook"),
        ({"limit": "-v"}, "limit"),
        ({"limit": "--version"}, "limit"),
        ({"limit": "@/etc/hostname"}, "limit"),
        ({"limit": "a,@/etc/hostname"}, "limit"),
        ({"limit": "a\nb"}, "limit"),
        ({"limit": None}, "limit"),
        ({"inventory": "[broken\nweb1"}, "inventory"),
        ({"inventory": "all:\n  hosts: [a\n"}, "inventory"),
        ({"inventory": "web1\0"}, "inventory"),
        ({"inventory": None}, "inventory"),
        ({"inventory_path": "hosts"}, "inventory"),
        ({"inventory": None, "inventory_path": "../hosts"}, "inventory_path"),
        ({"extra_vars": "a=1"}, "extra_vars"),
        ({"extra_vars": ["a"]}, "extra_vars"),
        ({"extra_vars": None}, "extra_vars"),
        ({"extra_vars": {"a": "\ud800"}}, "extra_vars"),
        ({"secret_vars": [1]}, "secret_vars"),
        ({"bundle_digest": "x"}, "bundle_digest"),
        ({"forks": -1}, "forks"),
        ({"forks": "5"}, "forks"),
        ({"forks": True}, "forks"),
        ({"forks": 2**40}, "forks"),
        ({"verbosity": 6}, "verbosity"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": 1.5}, "timeout"),
        ({"check_mode": "yes"}, "check_mode"),
        ({"tags": "a,b"}, "tags"),
        ({"tags": ["-x"]}, "tags"),
        ({"max_failed": "ten"}, "max_failed"),
        ({"host_lock": "maybe"}, "host_lock"),
        ({"host_key_policy": "none"}, "host_key_policy"),
        ({"instance_groups": ["nope"]}, "instance_groups"),
        ({"name": "a\x1bb"}, "name"),
        ({"name": "x" * 10_000}, "name"),
        ({"job_template": 5}, "job_template"),
        ({"extra_variables": {}}, "extra_variables"),
    ],
)
def test_a_bad_request_is_400_naming_the_field_and_nothing_is_stored(
    shared: Shared, digest: str, changed: dict[str, Any], field: str
) -> None:
    before = _jobs(shared.engine)
    raw = json.dumps(_run(digest) | changed)
    answer = shared.api.http.post(
        RUNS, content=raw, headers={"Content-Type": "application/json", "Idempotency-Key": "bad"}
    )
    assert answer.status_code == 400, answer.text
    assert {name.split(".")[0] for name in answer.json()} == {field}
    assert _jobs(shared.engine) == before
    with shared.engine.begin() as connection:
        assert connection.scalar(text("SELECT count(*) FROM idempotency_key")) == 0


@pytest.mark.parametrize(
    ("raw", "content_type", "field"),
    [
        (b"", "application/json", "body"),
        (b"{", "application/json", "body"),
        (b"[]", "application/json", "body"),
        (b'"x"', "application/json", "body"),
        (b"\xff", "application/json", "body"),
        (b'{"extra_vars": {"a": NaN}}', "application/json", "extra_vars"),
        (b'{"name": "\\u0000"}', "application/json", "name"),
        (b"[" * 100_000, "application/json", "body"),
        (b"playbook=site.yml", "application/x-www-form-urlencoded", "body"),
        (b'{"playbook": "site.yml"}', "text/plain", "body"),
    ],
)
def test_a_body_that_is_no_request_is_400(
    shared: Shared, raw: bytes, content_type: str, field: str
) -> None:
    answer = shared.api.http.post(RUNS, content=raw, headers={"Content-Type": content_type})
    assert (answer.status_code, list(answer.json())) == (400, [field])


def test_what_is_missing_is_named_in_one_answer(shared: Shared) -> None:
    answer = shared.api.http.post(RUNS, json={"limit": 5})
    assert set(answer.json()) == {"playbook", "bundle_digest", "limit"}


def test_missing_content_is_409_and_says_what_to_upload(shared: Shared) -> None:
    answer = shared.api.http.post(RUNS, json=_run("d" * 64))
    assert answer.status_code == 409
    body = answer.json()
    assert (body["code"], body["missing"]) == ("content_missing", ["d" * 64])


def test_a_body_beyond_its_bound_is_refused_however_it_is_sent(
    settings: Settings, engine: Engine
) -> None:
    small = settings.model_copy(update={"max_body_bytes": 10_000})
    large = json.dumps(_run(_bundle(engine), extra_vars={"a": "x" * 30_000})).encode()
    json_type = {"Content-Type": "application/json"}
    with in_thread(small, engine) as api:
        for content in (large, iter([large[:20_000], large[20_000:]]), b" " * 50_000_000):
            answer = api.http.post(RUNS, content=content, headers=json_type)
            assert answer.status_code == 400
            assert answer.json() == {"body": ["larger than 10000 bytes"]}
        assert api.http.post(RUNS, json=_run("d" * 64)).status_code == 409


def test_without_a_key_the_same_request_twice_is_two_jobs(shared: Shared, digest: str) -> None:
    ids = {shared.api.http.post(RUNS, json=_run(digest)).json()["id"] for _ in range(2)}
    assert len(ids) == 2


def test_with_a_key_the_same_request_again_is_the_same_job(shared: Shared, digest: str) -> None:
    key = {"Idempotency-Key": "build 7/1"}
    first = shared.api.http.post(RUNS, json=_run(digest), headers=key)
    again = shared.api.http.post(RUNS, json=_run(digest), headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["Location"] == first.headers["Location"]
    other = shared.api.http.post(RUNS, json=_run(digest, limit="x"), headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "key_reused")
    another = shared.api.http.post(RUNS, json=_run(digest), headers={"Idempotency-Key": "7/2"})
    assert another.json()["id"] != first.json()["id"]


@pytest.mark.parametrize("key", ["", "x" * 300, "a\tb"])
def test_a_key_of_another_form_is_400(shared: Shared, digest: str, key: str) -> None:
    answer = shared.api.http.post(RUNS, json=_run(digest), headers={"Idempotency-Key": key})
    assert (answer.status_code, list(answer.json())) == (400, ["Idempotency-Key"])


def test_many_requests_with_one_key_at_once_make_one_job(api: Api, engine: Engine) -> None:
    body, key = _run(_bundle(engine)), {"Idempotency-Key": "k"}
    answers = at_once([lambda: api.http.post(RUNS, json=body, headers=key)] * 16)
    codes = [answer.status_code for answer in answers]
    assert codes.count(201) == 1
    assert set(codes) <= {200, 201, 409}
    assert len({a.json()["id"] for a in answers if a.status_code < 300}) == 1
    for refused in (a for a in answers if a.status_code == 409):
        assert refused.json()["code"] == "in_progress"
        assert refused.headers["Retry-After"] == "1"
    assert _jobs(engine) == 1


def test_a_key_whose_first_request_is_open_is_409_with_retry_after(
    api: Api, engine: Engine
) -> None:
    body, key = _run(_bundle(engine)), {"Idempotency-Key": "k"}
    with engine.begin() as connection:
        # another server's transaction, not committed yet
        connection.execute(
            text(
                "INSERT INTO idempotency_key (principal, route, key, request_sha256, job_id)"
                " VALUES ('tests', 'runs', 'k', '\\x00', 0)"
            )
        )
        answer = api.http.post(RUNS, json=body, headers=key)
        assert (answer.status_code, answer.json()["code"]) == (409, "in_progress")
        assert answer.headers["Retry-After"] == "1"
        connection.rollback()
    assert api.http.post(RUNS, json=body, headers=key).status_code == 201


def test_different_bodies_with_one_key_at_once_make_one_job(api: Api, engine: Engine) -> None:
    digest, key = _bundle(engine), {"Idempotency-Key": "k"}

    def post(number: int) -> Any:
        return api.http.post(RUNS, json=_run(digest, name=f"n{number}"), headers=key)

    answers = at_once([partial(post, number) for number in range(8)])
    assert [a.status_code for a in answers].count(201) == 1
    refused = {a.json()["code"] for a in answers if a.status_code == 409}
    assert refused <= {"key_reused", "in_progress"}
    assert _jobs(engine) == 1


def test_the_right_manager_is_woken(shared: Shared, digest: str) -> None:
    assert shared.api.services is not None
    url = shared.api.services.settings.broker_url
    assert url is not None
    broker = redis.Redis.from_url(url)
    broker.flushdb()
    assert shared.api.http.post(RUNS, json=_run(digest)).status_code == 201
    assert broker.llen("dispatcher:schedulers.task") == 1
    broker.close()


def test_nothing_is_written_once_a_migration_has_left_this_code_behind(
    api: Api, engine: Engine
) -> None:
    digest = _bundle(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE schema_info SET min_code = min_code + 1000"))
    assert api.http.get("/readyz").status_code == 503
    for answer in (
        api.http.post(RUNS, json=_run(digest)),
        api.http.put(f"/api/v2/content/{'0' * 64}/", content=b"x"),
    ):
        assert answer.status_code == 503
        assert "the schema needs code version" in answer.text
        assert answer.headers["Retry-After"] == "60"
    assert _jobs(engine) == 0
    assert api.http.get("/api/v2/jobs/").status_code == 200
    with engine.begin() as connection:
        connection.execute(text("UPDATE schema_info SET min_code = min_code - 1000"))
    assert api.http.get("/readyz").status_code == 200
    assert api.http.post(RUNS, json=_run(digest)).status_code == 201
