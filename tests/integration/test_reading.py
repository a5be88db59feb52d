"""Connections for reads: each statement a transaction of its own, with its time-outs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from sqlalchemy import Connection, Engine, bindparam, event, select, text
from sqlalchemy.exc import OperationalError

from dispatcher.db import tables as t
from dispatcher.db.engine import is_away, make_engine, reading, transaction
from dispatcher.settings import Settings
from tests.factories import make_job

_SETTINGS = "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')"


def test_every_statement_has_its_time_outs(engine: Engine) -> None:
    with reading(engine, statement_timeout=3, lock_timeout=1) as connection:
        for _ in range(2):
            assert tuple(connection.execute(text(_SETTINGS)).one()) == ("3s", "1s")


def test_a_statement_that_takes_too_long_is_ended(engine: Engine) -> None:
    with (
        reading(engine, statement_timeout=0.1) as connection,
        pytest.raises(OperationalError, match="statement timeout") as gave_up,
    ):
        connection.execute(text("SELECT pg_sleep(60)"))
    assert not is_away(gave_up.value)


def test_nothing_leaks_into_the_session(engine: Engine) -> None:
    with engine.connect() as connection:
        before = tuple(connection.execute(text(_SETTINGS)).one())
    for _ in range(10):
        with reading(engine, statement_timeout=3) as connection:
            connection.execute(text("SELECT 1"))
    with engine.connect() as connection:
        assert tuple(connection.execute(text(_SETTINGS)).one()) == before
        assert connection.get_isolation_level() == "READ COMMITTED"
    with transaction(engine) as connection:
        assert tuple(connection.execute(text(_SETTINGS)).one()) == ("8s", "2s")


def test_a_read_is_one_round_trip_and_leaves_no_transaction_open(engine: Engine) -> None:
    with transaction(engine) as connection:
        job = make_job(connection)
    sent: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *args: sent.append(args[2]), named=False)
    statement = select(t.job.c.id).where(t.job.c.id == bindparam("job"))
    with reading(engine) as connection:
        assert connection.execute(statement, {"job": job}).scalar_one() == job
        assert connection.execute(statement, {"job": job + 1}).one_or_none() is None
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with engine.connect() as other:
            state = other.execute(
                text("SELECT state FROM pg_stat_activity WHERE pid = :pid"), {"pid": pid}
            ).scalar_one()
    assert state == "idle"
    assert len(sent) == 4


@pytest.mark.parametrize("opened", [reading, transaction])
def test_a_connection_that_dies_after_its_last_answer_fails_nobody_and_keeps_no_place(
    settings: Settings, opened: Callable[..., AbstractContextManager[Connection]]
) -> None:
    single = make_engine(settings, application_name="single", pool_size=1, pool_timeout=1)
    options = {"isolation": "REPEATABLE READ"} if opened is transaction else {}
    for _ in range(3):
        with opened(single, **options) as connection:
            connection.execute(text("SELECT 1"))
            # what ends a transaction is an answer too: the last one before the pool
            if opened is transaction:
                connection.commit()
            # libpq has read the server's farewell together with that answer
            connection.connection.dbapi_connection.close()  # type: ignore[union-attr]
    assert single.pool.checkedout() == 0  # type: ignore[attr-defined]
    single.dispose()
