"""The database or the broker away: what is answered meanwhile, and that nothing accepted is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, text

from dispatcher.db.engine import make_engine
from dispatcher.db.migrate import migrate
from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.settings import Settings
from tests.api_server import Api, in_thread
from tests.factories import add_events, finish_job, make_job, make_node, store_bundle
from tests.sse import Message, following
from tests.tcp_proxy import TcpProxy, in_front_of
from tests.waiting import wait_until

RUNS = "/api/v2/runs/"
#: The statement itself; every transaction begins with a "READ COMMITTED".
COMMIT = b"COMMIT\0"


@dataclass
class Behind:
    """A server whose database is behind a proxy."""

    api: Api
    proxy: TcpProxy
    run: dict[str, Any]
    job: int


def _prepare(engine: Engine) -> tuple[dict[str, Any], int]:
    with engine.begin() as connection:
        make_node(connection)
        digest = store_bundle(connection, {"site.yml": "- hosts: all\n"})
        job = make_job(connection, status="running")
    return {"playbook": "site.yml", "bundle_digest": digest, "inventory": "localhost\n"}, job


@pytest.fixture
def behind(settings: Settings, engine: Engine) -> Iterator[Behind]:
    assert settings.database_url is not None
    run, job = _prepare(engine)
    proxy, url = in_front_of(settings.database_url)
    through = settings.model_copy(update={"database_url": url})
    with proxy, in_thread(through, engine) as api:
        # the pool's first connection commits things of its own
        assert api.http.get("/api/v2/jobs/").status_code == 200
        yield Behind(api, proxy, run, job)


def _seconds(call: Any) -> tuple[float, Any]:
    started = time.monotonic()
    answer = call()
    return time.monotonic() - started, answer


def _jobs(engine: Engine) -> int:
    with engine.begin() as connection:
        return int(connection.scalar(text("SELECT count(*) FROM job")) or 0)


def test_without_the_database_every_route_is_503_with_retry_after_soon(behind: Behind) -> None:
    http, job = behind.api.http, behind.job
    assert http.get(f"/api/v2/jobs/{job}/").status_code == 200
    behind.proxy.cut()
    calls = [
        ("GET", f"/api/v2/jobs/{job}/"),
        ("GET", "/api/v2/jobs/"),
        ("GET", f"/api/v2/jobs/{job}/stdout/"),
        ("GET", f"/api/v2/jobs/{job}/stream/"),
        ("POST", f"/api/v2/jobs/{job}/cancel/"),
        ("POST", RUNS),
        ("GET", "/api/v2/ping/"),
        ("GET", "/api/v2/metrics/"),
    ]
    for method, path in calls:
        body = behind.run if path == RUNS else None
        seconds, answer = _seconds(lambda m=method, p=path, b=body: http.request(m, p, json=b))
        assert answer.status_code == 503, (path, answer.text)
        assert set(answer.json()) == {"detail"}
        assert int(answer.headers["Retry-After"]) > 0
        assert seconds < 6
    assert http.get("/healthz").status_code == 200
    ready = http.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
    assert ready.json()["database"] == "the database is not available"
    behind.proxy.restore()
    assert http.get(f"/api/v2/jobs/{job}/").status_code == 200
    assert http.post(RUNS, json=behind.run).status_code == 201


def test_a_job_whose_commit_was_not_answered_is_found_and_answered_201(
    behind: Behind, engine: Engine
) -> None:
    for number in range(5):
        behind.proxy.lose_answer_to(COMMIT)
        answer = behind.api.http.post(RUNS, json=behind.run)
        assert answer.status_code == 201, answer.text
        assert behind.proxy.lost_answers == number + 1
        assert _jobs(engine) == 2 + number
        with engine.begin() as connection:
            newest = connection.scalar(text("SELECT max(id) FROM job"))
        assert answer.json()["id"] == newest


def test_a_job_that_was_not_committed_is_503_and_not_stored(behind: Behind, engine: Engine) -> None:
    key = {"Idempotency-Key": "k"}
    behind.proxy.lose_answer_to(b"INSERT INTO job_input")
    answer = behind.api.http.post(RUNS, json=behind.run, headers=key)
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert _jobs(engine) == 1
    again = behind.api.http.post(RUNS, json=behind.run, headers=key)
    assert again.status_code == 201
    assert _jobs(engine) == 2


def test_a_lost_commit_with_a_key_is_one_job_however_often_it_is_sent(
    behind: Behind, engine: Engine
) -> None:
    key, ids = {"Idempotency-Key": "k"}, set()
    for _ in range(4):
        behind.proxy.lose_answer_to(COMMIT)
        answer = behind.api.http.post(RUNS, json=behind.run, headers=key)
        if answer.status_code < 300:
            ids.add(answer.json()["id"])
    assert len(ids) == 1
    assert _jobs(engine) == 2


def test_a_cancel_whose_commit_was_not_answered_is_answered_by_what_became_of_it(
    behind: Behind, engine: Engine
) -> None:
    with engine.begin() as connection:
        pending = make_job(connection)
    for job, status in ((behind.job, "running"), (pending, "canceled")):
        behind.proxy.lose_answer_to(COMMIT)
        answer = behind.api.http.post(f"/api/v2/jobs/{job}/cancel/")
        assert (answer.status_code, answer.json()) == (202, {"id": job, "status": status})
    with engine.begin() as connection:
        untouched = make_job(connection)
    behind.proxy.lose_answer_to(b"UPDATE job SET")
    path = f"/api/v2/jobs/{untouched}/cancel/"
    assert behind.api.http.post(path).status_code == 503
    assert behind.api.http.post(path).status_code == 202


def test_a_stream_goes_on_after_an_outage_and_misses_nothing(
    behind: Behind, engine: Engine
) -> None:
    job = behind.job
    with engine.begin() as connection:
        add_events(connection, job, ["before"])
    with following(behind.api.http, job) as messages:
        assert [next(messages).event for _ in range(2)] == ["status", "job_event"]  # type: ignore[union-attr]
        behind.proxy.cut()
        with engine.begin() as connection:
            add_events(connection, job, ["meanwhile", "too"])
        behind.proxy.restore()
        assert [next(messages).id for _ in range(2)] == ["2", "3"]  # type: ignore[union-attr]
        behind.proxy.cut()
        with engine.begin() as connection:
            finish_job(connection, job)
        timer = threading.Timer(3, behind.proxy.restore)
        timer.start()
        rest = list(messages)
    timer.join()
    assert [m.event for m in rest if isinstance(m, Message)] == ["status", "end"]


def test_output_that_is_cut_short_is_not_taken_for_whole(behind: Behind, engine: Engine) -> None:
    with engine.begin() as connection:
        for _ in range(40):
            add_events(connection, behind.job, ["x" * 1_000_000])
    path = f"/api/v2/jobs/{behind.job}/stdout/"
    with (  # noqa: PT012
        pytest.raises(httpx.RemoteProtocolError),
        behind.api.http.stream("GET", path) as answer,
    ):
        assert answer.status_code == 200
        for number, _ in enumerate(answer.iter_bytes(1_000_000)):
            if number == 3:
                behind.proxy.cut()


def test_a_server_that_stops_and_starts_again_is_used_again(
    settings: Settings, data_dir: Path
) -> None:
    server = EmbeddedPostgres(data_dir / "postgres", durable=False)
    own = settings.model_copy(update={"database_url": server.start()})
    engine = make_engine(own, application_name="test", pool_size=2)
    try:
        migrate(engine)
        run, job = _prepare(engine)
        with in_thread(own, engine) as api:
            assert api.http.post(RUNS, json=run).status_code == 201
            server.stop()
            for _ in range(12):  # more than the pool has connections
                seconds, answer = _seconds(lambda: api.http.get(f"/api/v2/jobs/{job}/"))
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
                assert seconds < 6
            assert api.http.post(RUNS, json=run).status_code == 503
            server.start()
            wait_until(lambda: api.http.get(f"/api/v2/jobs/{job}/").status_code == 200)
            assert api.http.post(RUNS, json=run).status_code == 201
            assert api.http.get("/api/v2/jobs/").json()["count"] == 3
    finally:
        engine.dispose()
        server.stop()


def test_when_every_connection_is_in_use_the_answer_is_503_not_an_endless_wait(
    settings: Settings, engine: Engine
) -> None:
    small = settings.model_copy(update={"api_pool_size": 1})
    with in_thread(small, engine) as api:
        assert api.services is not None
        with api.services.engine.connect():
            seconds, answer = _seconds(lambda: api.http.get("/api/v2/jobs/"))
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert 4 < seconds < 8
        assert api.http.get("/api/v2/jobs/").status_code == 200


def test_a_statement_that_waits_too_long_for_a_lock_is_503(api: Api, engine: Engine) -> None:
    _, job = _prepare(engine)
    with engine.begin() as connection:
        connection.execute(text("SELECT 1 FROM job WHERE id = :job FOR UPDATE"), {"job": job})
        answer = api.http.post(f"/api/v2/jobs/{job}/cancel/")
        assert (answer.status_code, answer.json()) == (503, {"detail": "the database is busy"})
        assert answer.headers["Retry-After"] == "5"
    assert api.http.post(f"/api/v2/jobs/{job}/cancel/").status_code == 202


@pytest.fixture
def broker(data_dir: Path) -> Iterator[EmbeddedValkey]:
    """A broker of the test's own, to be stopped and frozen."""
    server = EmbeddedValkey(data_dir / "valkey", tcp=True, durable=False)
    server.start()
    yield server
    server.stop()


def test_without_the_broker_jobs_are_accepted_and_canceled(
    settings: Settings, engine: Engine, broker: EmbeddedValkey
) -> None:
    own = settings.model_copy(update={"broker_url": broker.url()})
    run, job = _prepare(engine)
    with in_thread(own, engine) as api:
        assert api.http.post(RUNS, json=run).status_code == 201
        broker.stop()
        seconds, answer = _seconds(lambda: api.http.post(RUNS, json=run))
        assert answer.status_code == 201
        assert seconds < 5
        assert api.http.post(f"/api/v2/jobs/{job}/cancel/").status_code == 202
        ready = api.http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert ready.json()["broker"] != "ok"
        assert _jobs(engine) == 3
        broker.start()
        wait_until(lambda: api.http.get("/readyz").json()["broker"] == "ok")


def test_a_frozen_broker_costs_seconds_not_the_answer(
    settings: Settings, engine: Engine, broker: EmbeddedValkey
) -> None:
    own = settings.model_copy(update={"broker_url": broker.url()})
    run, _ = _prepare(engine)
    with in_thread(own, engine) as api:
        os.kill(broker.process.pid, signal.SIGSTOP)
        try:
            for _ in range(3):
                seconds, answer = _seconds(lambda: api.http.post(RUNS, json=run))
                assert answer.status_code == 201
                assert seconds < 6
        finally:
            os.kill(broker.process.pid, signal.SIGCONT)
    assert _jobs(engine) == 4
