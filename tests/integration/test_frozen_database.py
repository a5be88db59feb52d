"""A server process that is stopped but keeps its connection: the client's own bound ends the wait."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError

from dispatcher.db.engine import is_away, make_engine, reading, transaction
from dispatcher.settings import Settings
from tests.api_server import in_thread
from tests.factories import make_job
from tests.waiting import NOT_ENDLESS, wait_until


@pytest.fixture
def watched(settings: Settings) -> Iterator[Engine]:
    made = make_engine(settings, application_name="watched")
    yield made
    made.dispose()


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """These server processes do nothing, and their kernel keeps their connections."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def pid_of(connection: Connection) -> int:
    return int(connection.scalar(text("SELECT pg_backend_pid()")) or 0)


def pids_of_api(engine: Engine) -> Sequence[int]:
    query = text(
        "SELECT pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'dispatcher api'"
    )
    with engine.connect() as connection:
        return connection.scalars(query).all()


def freeze_when_asleep(engine: Engine, pid: int) -> threading.Thread:
    """Stop a server process as soon as it is in the middle of ``pg_sleep``."""
    query = text("SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = :pid")

    def asleep() -> bool:
        with engine.connect() as connection:
            return bool(connection.scalar(query, {"pid": pid}))

    def freeze() -> None:
        wait_until(asleep, what="it sleeps")
        os.kill(pid, signal.SIGSTOP)

    thread = threading.Thread(target=freeze)
    thread.start()
    return thread


@pytest.mark.parametrize("opened", [reading, transaction])
def test_a_statement_that_is_never_answered_ends_soon_after_its_time_out(
    watched: Engine, engine: Engine, opened: object
) -> None:
    pid, began = 0, time.monotonic()
    try:
        with (  # noqa: PT012
            pytest.raises(OperationalError) as caught,
            opened(watched, statement_timeout=1) as connection,  # type: ignore[operator]
        ):
            pid = pid_of(connection)
            freezing, began = freeze_when_asleep(engine, pid), time.monotonic()
            connection.execute(text("SELECT pg_sleep(0.9)"))
    finally:
        os.kill(pid, signal.SIGCONT)
    freezing.join()
    assert 2.5 < time.monotonic() - began < NOT_ENDLESS
    assert is_away(caught.value)
    assert watched.pool.checkedout() == 0  # type: ignore[attr-defined]
    with transaction(watched) as connection:
        assert pid_of(connection) != pid


def test_a_commit_that_is_never_answered_ends_too(watched: Engine) -> None:
    with watched.connect() as first:
        pid = pid_of(first)
    began = time.monotonic()
    try:
        with (  # noqa: PT012
            pytest.raises(OperationalError) as caught,
            transaction(watched, statement_timeout=1) as connection,
        ):
            connection.execute(text("CREATE TABLE made (id int)"))
            os.kill(pid, signal.SIGSTOP)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert is_away(caught.value)
    assert 2.5 < time.monotonic() - began < NOT_ENDLESS


def test_what_is_slow_but_allowed_is_left_alone(watched: Engine) -> None:
    with transaction(watched, statement_timeout=8) as connection:
        connection.execute(text("SELECT pg_sleep(5.5)"))  # longer than a ping may take
        assert pid_of(connection)


def test_a_frozen_connection_in_the_pool_costs_a_request_seconds_and_is_replaced(
    settings: Settings, engine: Engine
) -> None:
    with engine.begin() as connection:
        job = make_job(connection)
    path = f"/api/v2/jobs/{job}/"
    with in_thread(settings.model_copy(update={"api_pool_size": 1}), engine) as api:
        assert api.http.get(path).status_code == 200
        pids = pids_of_api(engine)
        assert len(pids) == 1
        with frozen(*pids):
            # found dead when it was taken from the pool, and replaced
            assert api.http.get(path).status_code == 200
            assert set(pids_of_api(engine)) - set(pids)
            assert api.http.get(path).status_code == 200
