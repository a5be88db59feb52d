"""``jobs/N/stream/``: every event once, in order, whatever happens to the connection."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import Engine, text

from dispatcher.api import followers
from dispatcher.api.v2 import stream
from dispatcher.broker.celery_app import make_app
from dispatcher.broker.publish import Publisher
from dispatcher.settings import Settings
from tests.api_server import Api, client, in_thread
from tests.factories import add_events, finish_job, make_job, make_node
from tests.sse import Message, following
from tests.waiting import wait_until


@pytest.fixture
def job(api: Api, engine: Engine) -> int:
    with engine.begin() as connection:
        make_node(connection)
        return make_job(connection, status="running")


def _add(engine: Engine, job: int, count: int = 1) -> int:
    with engine.begin() as connection:
        return add_events(connection, job, [f"line {n}" for n in range(count)])


def _finish(engine: Engine, job: int) -> None:
    with engine.begin() as connection:
        finish_job(connection, job)


def _counters(messages: list[Message | str]) -> list[int]:
    return [
        m.data["counter"] for m in messages if isinstance(m, Message) and m.event == "job_event"
    ]


def _events(messages: list[Message | str]) -> list[str]:
    return [m.event for m in messages if isinstance(m, Message) and m.event != "job_event"]


def test_a_late_follower_gets_everything_and_the_end(api: Api, engine: Engine, job: int) -> None:
    _add(engine, job, 1234)
    _finish(engine, job)
    with following(api.http, job) as messages:
        seen = list(messages)
    assert _counters(seen) == list(range(1, 1235))
    assert _events(seen) == ["status", "end"]
    first, last = seen[0], seen[-1]
    assert isinstance(first, Message)
    assert isinstance(last, Message)
    assert (first.event, first.id, first.data["stdout"]) == ("job_event", "1", "line 0")
    assert "event_data" not in first.data
    assert last.data == {
        "id": job,
        "status": "successful",
        "outcome": "successful",
        "exit_code": 0,
        "job_explanation": "",
        "cancel_requested": False,
        "events_stored": 1234,
        "events_complete": True,
        "retried_by": None,
    }


def test_an_early_follower_sees_events_and_statuses_as_they_come(
    api: Api, engine: Engine, settings: Settings
) -> None:
    with engine.begin() as connection:
        make_node(connection)
        job = make_job(connection)
    publisher = Publisher(make_app(settings, profile="publisher"))
    with following(api.http, job) as messages:
        status = next(messages)
        assert isinstance(status, Message)
        assert (status.event, status.data["status"]) == ("status", "pending")
        with engine.begin() as connection:
            connection.execute(
                text(
                    "UPDATE job SET status = 'running', started = dispatcher_now(), node_epoch = 1,"
                    " dispatch_id = gen_random_uuid(), node_id = 1 WHERE id = :job"
                ),
                {"job": job},
            )
        running = next(messages)
        assert isinstance(running, Message)
        assert running.data["status"] == "running"
        for number in range(1, 6):
            _add(engine, job)
            publisher.notify_live(job, number, False)
            event = next(messages)
            assert isinstance(event, Message)
            assert (event.event, event.id) == ("job_event", str(number))
        _finish(engine, job)
        publisher.notify_live(job, 5, True)
        assert _events(list(messages)) == ["status", "end"]


def test_a_notice_is_passed_on_long_before_the_next_poll(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "POLL_SECONDS", 600.0)
    monkeypatch.setattr(stream, "KEEP_ALIVE_SECONDS", 600.0)
    publisher = Publisher(make_app(settings, profile="publisher"))
    with engine.begin() as connection:
        make_node(connection)
        job = make_job(connection, status="running")
    with in_thread(settings, engine) as api, following(api.http, job) as messages:
        assert api.services is not None
        listener = api.services.followers._listener
        assert listener is not None
        assert listener.wait_ready(10)
        next(messages)
        for number in range(1, 4):
            _add(engine, job)
            publisher.notify_live(job, number, False)
            event = next(messages)
            assert isinstance(event, Message)
            assert event.id == str(number)


def test_without_notices_the_poll_finds_events_and_the_end(
    api: Api, engine: Engine, job: int
) -> None:
    """Nothing is published in this test."""
    with following(api.http, job) as messages:
        next(messages)
        _add(engine, job, 3)
        assert [next(messages).id for _ in range(3)] == ["1", "2", "3"]  # type: ignore[union-attr]
        _finish(engine, job)
        assert _events(list(messages)) == ["status", "end"]


def test_a_follower_resumes_after_the_last_event_it_has(api: Api, engine: Engine, job: int) -> None:
    _add(engine, job, 50)
    _finish(engine, job)
    for last in (0, 1, 49, 50, 51):
        with following(api.http, job, last) as messages:
            seen = list(messages)
        assert _counters(seen) == list(range(last + 1, 51))
        assert _events(seen) == ["status", "end"]
    after = api.http.get(f"/api/v2/jobs/{job}/stream/?after=48")
    assert after.text.count("event: job_event") == 2


@pytest.mark.parametrize("value", ["x", "1.5", "9" * 30, "-"])
def test_an_event_id_that_is_none_is_400(api: Api, job: int, value: str) -> None:
    answer = api.http.get(f"/api/v2/jobs/{job}/stream/", headers={"Last-Event-ID": value})
    assert (answer.status_code, list(answer.json())) == (400, ["Last-Event-ID"])


def _writing(engine: Engine, job: int, total: int) -> threading.Thread:
    """Add ``total`` events in uneven batches, then end the job."""

    def write() -> None:
        rng, left = random.Random(7), total
        while left > 0:
            count = min(left, rng.choice((1, 1, 2, 5, 40, 200)))
            _add(engine, job, count)
            left -= count
        _finish(engine, job)

    return threading.Thread(target=write)


def test_a_follower_that_loses_its_connection_many_times_misses_and_repeats_nothing(
    api: Api, engine: Engine, job: int
) -> None:
    total, seen, connections, ended = 2000, [], 0, False
    rng = random.Random(3)
    writer = _writing(engine, job, total)
    writer.start()
    while not ended:
        connections += 1
        stay = rng.choice((1, 3, 30, 300))
        with following(api.http, job, seen[-1] if seen else None) as messages:
            for number, message in enumerate(messages):
                if isinstance(message, Message) and message.event == "job_event":
                    seen.append(message.data["counter"])
                ended = isinstance(message, Message) and message.event == "end"
                if number == stay:
                    break
    writer.join()
    assert seen == list(range(1, total + 1))
    assert connections > 5


def test_many_followers_of_one_job_all_see_the_same(api: Api, engine: Engine, job: int) -> None:
    results: list[list[int]] = []

    def follow() -> None:
        with client(api.url, api.token) as http, following(http, job) as messages:
            results.append(_counters(list(messages)))

    threads = [threading.Thread(target=follow) for _ in range(25)]
    writer = _writing(engine, job, 500)
    for thread in [*threads, writer]:
        thread.start()
    for thread in [*threads, writer]:
        thread.join()
    assert results == [list(range(1, 501))] * 25


def test_waiting_streams_hold_no_connection_and_no_thread(
    api: Api, engine: Engine, job: int
) -> None:
    assert api.services is not None
    pool = api.services.engine.pool
    with ExitStack() as opened:
        streams = []
        for _ in range(60):
            http = opened.enter_context(client(api.url, api.token))
            streams.append(opened.enter_context(following(http, job)))
            next(streams[-1])
        wait_until(lambda: pool.checkedout() == 0)  # type: ignore[attr-defined]
        # more streams than threads and connections, and everybody else is served
        assert api.http.get(f"/api/v2/jobs/{job}/").status_code == 200
        names = [thread.name for thread in threading.enumerate()]
        assert sum(name.startswith("AnyIO") for name in names) < 30
        assert _gauge(api) == 60
    wait_until(lambda: _gauge(api) == 0, what="the streams are closed")
    assert api.services.followers._signals == {}


def _gauge(api: Api) -> float:
    for line in api.http.get("/api/v2/metrics/").text.splitlines():
        if line.startswith("dispatcher_http_streams "):
            return float(line.split()[1])
    raise AssertionError("no such gauge")


def test_a_silent_stream_shows_that_it_lives(
    api: Api, job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "KEEP_ALIVE_SECONDS", 0.05)
    with following(api.http, job) as messages:
        assert isinstance(next(messages), Message)
        assert [next(messages) for _ in range(3)] == [": still here"] * 3


def test_a_stream_ends_when_its_token_is_revoked(
    api: Api, engine: Engine, job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with following(api.http, job) as messages:
        next(messages)
        with engine.begin() as connection:
            connection.execute(text("UPDATE api_token SET revoked = dispatcher_now()"))
        _add(engine, job)
        assert _events(list(messages)) == []


def test_a_stream_ends_when_its_job_is_removed(api: Api, engine: Engine, job: int) -> None:
    with following(api.http, job) as messages:
        next(messages)
        with engine.begin() as connection:
            connection.execute(text("DELETE FROM job WHERE id = :job"), {"job": job})
        assert list(messages) == []


def test_an_end_is_never_said_while_events_may_follow(
    api: Api, engine: Engine, job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events and final status are committed together, between the two reads of a look."""
    real = stream.read_state
    late: Iterator[None] = iter([None])

    def state_then_commit(connection: Any, job_id: int) -> Any:
        state = real(connection, job_id)
        if next(late, "over") is None and threading.current_thread() is not threading.main_thread():
            with engine.begin() as other:
                add_events(other, job, ["a", "b"])
                finish_job(other, job)
        return state

    monkeypatch.setattr(stream, "read_state", state_then_commit)
    with following(api.http, job) as messages:
        seen = list(messages)
    assert _counters(seen) == [1, 2]
    assert _events(seen)[-1] == "end"
