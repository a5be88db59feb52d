"""The database away: what is answered meanwhile, and that nothing accepted is lost."""

from __future__ import annotations

import threading
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
from dispatcher.settings import Settings
from tests.api_server import Api, in_thread
from tests.factories import add_events, finish_job, make_job
from tests.integration.api.outage import RUNS, count_jobs, prepare, seconds
from tests.racing import at_once
from tests.sse import Message, following
from tests.tcp_proxy import TcpProxy, in_front_of
from tests.waiting import NOT_ENDLESS, wait_until

#: The statement itself; every transaction begins with a "READ COMMITTED".
COMMIT = b"COMMIT\0"


@dataclass
class Behind:
    """A server whose database is behind a proxy."""

    api: Api
    proxy: TcpProxy
    run: dict[str, Any]
    job: int


@pytest.fixture
def behind(settings: Settings, engine: Engine) -> Iterator[Behind]:
    assert settings.database_url is not None
    run, job = prepare(engine)
    proxy, url = in_front_of(settings.database_url)
    through = settings.model_copy(update={"database_url": url})
    with proxy, in_thread(through, engine) as api:
        # the pool's first connection commits things of its own
        assert api.http.get("/api/v2/jobs/").status_code == 200
        yield Behind(api, proxy, run, job)


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
        took, answer = seconds(lambda m=method, p=path, b=body: http.request(m, p, json=b))
        assert answer.status_code == 503, (path, answer.text)
        assert set(answer.json()) == {"detail"}
        assert int(answer.headers["Retry-After"]) > 0
        assert took < NOT_ENDLESS
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
        assert count_jobs(engine) == 2 + number
        with engine.begin() as connection:
            newest = connection.scalar(text("SELECT max(id) FROM job"))
        assert answer.json()["id"] == newest


def test_a_job_that_was_not_committed_is_503_and_not_stored(behind: Behind, engine: Engine) -> None:
    key = {"Idempotency-Key": "k"}
    behind.proxy.lose_answer_to(b"INSERT INTO job_input")
    answer = behind.api.http.post(RUNS, json=behind.run, headers=key)
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert count_jobs(engine) == 1
    again = behind.api.http.post(RUNS, json=behind.run, headers=key)
    assert again.status_code == 201
    assert count_jobs(engine) == 2


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
    assert count_jobs(engine) == 2


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
        run, job = prepare(engine)
        with in_thread(own, engine) as api:
            assert api.http.post(RUNS, json=run).status_code == 201
            server.stop()
            for _ in range(12):  # more than the pool has connections
                took, answer = seconds(lambda: api.http.get(f"/api/v2/jobs/{job}/"))
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
                assert took < NOT_ENDLESS
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
            took, answer = seconds(lambda: api.http.get("/api/v2/jobs/"))
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert 4 < took < NOT_ENDLESS
        assert api.http.get("/api/v2/jobs/").status_code == 200


def test_a_database_that_hangs_holds_up_only_as_many_requests_as_there_are_connections(
    behind: Behind,
) -> None:
    path, services = f"/api/v2/jobs/{behind.job}/", behind.api.services
    assert services is not None
    size = services.settings.api_pool_size

    def get() -> tuple[float, int]:
        took, answer = seconds(lambda: behind.api.http.get(path))
        return took, answer.status_code

    behind.proxy.stall()
    timer = threading.Timer(8, behind.proxy.restore)
    timer.start()
    answers = at_once([get] * (size + 8))
    timer.join()
    refused = [took for took, code in answers if code == 503]
    assert len(refused) >= 8
    assert max(refused) < 7
    assert behind.api.http.get(path).status_code == 200


def test_however_many_ask_at_once_the_pool_is_never_exceeded(api: Api, engine: Engine) -> None:
    _, job = prepare(engine)
    most: list[int] = []

    def get() -> int:
        code = api.http.get(f"/api/v2/jobs/{job}/").status_code
        with engine.begin() as connection:
            count = connection.scalar(
                text(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND application_name = 'dispatcher api'"
                )
            )
        most.append(count or 0)
        return code

    assert at_once([get] * 60) == [200] * 60
    assert api.services is not None
    assert max(most) <= api.services.settings.api_pool_size


def test_a_statement_that_waits_too_long_for_a_lock_is_503(api: Api, engine: Engine) -> None:
    _, job = prepare(engine)
    with engine.begin() as connection:
        connection.execute(text("SELECT 1 FROM job WHERE id = :job FOR UPDATE"), {"job": job})
        answer = api.http.post(f"/api/v2/jobs/{job}/cancel/")
        assert (answer.status_code, answer.json()) == (503, {"detail": "the database is busy"})
        assert answer.headers["Retry-After"] == "5"
    assert api.http.post(f"/api/v2/jobs/{job}/cancel/").status_code == 202


def test_an_answer_of_the_database_that_breaks_off_anywhere_is_503_and_never_a_fault(
    behind: Behind,
) -> None:
    http, proxy = behind.api.http, behind.proxy
    found: dict[int, str] = {}
    for allowed in [*range(1, 2_000, 37), *range(2_000, 12_000, 211)]:
        proxy.cut()
        proxy.restore()
        proxy.allowed = allowed
        answer = http.get(f"/api/v2/jobs/{behind.job}/")
        if answer.status_code not in (200, 503):
            found[allowed] = answer.text
    assert not found
