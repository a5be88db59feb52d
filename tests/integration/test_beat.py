"""Beat processes: one leads, another follows when it is killed or frozen, and none needs a schedule file."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis
import requests
from sqlalchemy import Engine, create_engine, text

from dispatcher import health
from dispatcher.broker.celery_app import KEY_PREFIX
from dispatcher.broker.messages import Manager
from dispatcher.db.schema_check import SchemaWatch
from dispatcher.errors import SchemaError
from dispatcher.health import Health
from dispatcher.settings import Settings
from schedulers.passes import beat
from tests.nodes import free_port
from tests.roles import Role, role
from tests.waiting import wait_until


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Short periods."""
    return settings.model_copy(update={"manager_period": 0.5, "recovery_period": 0.5})


def leader(engine: Engine) -> int | None:
    """The pid that holds beat's lease now."""
    with engine.connect() as connection:
        pid: int | None = connection.scalar(
            text(
                "SELECT pid FROM manager_lease WHERE manager = 'beat' AND holder IS NOT NULL"
                " AND expires_at > dispatcher_now()"
            )
        )
        return pid


def take_all(settings: Settings, manager: Manager) -> int:
    """Take every trigger of a manager from its queue: how many there were."""
    client = redis.Redis.from_url(str(settings.broker_url))
    key = f"{KEY_PREFIX}schedulers.{manager}"
    taken: Any = client.lpop(key, 1_000)
    return len(taken or ())


def ready(settings: Settings) -> bool:
    said = health.read(settings.data_dir, "beat")
    return said is not None and said.ready


def shut_out(engine: Engine) -> None:
    """End every connection to the test's database and let no new one in."""
    name = engine.url.database
    admin = create_engine(engine.url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
        connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"),
            {"name": name},
        )
    admin.dispose()


def leads(engine: Engine, beat_role: Role) -> Callable[[], bool]:
    return lambda: leader(engine) == beat_role.pid


def test_each_manager_is_triggered_on_its_own_queue_again_and_again(settings: Settings) -> None:
    with role(settings, "beat") as started:
        for _ in range(2):
            for manager in Manager:
                wait_until(lambda m=manager: take_all(settings, m))
        assert ready(settings)
        started.signal(signal.SIGTERM)
        assert started.wait(5) == 0
    assert health.read(settings.data_dir, "beat") is None
    assert not list(settings.data_dir.glob("*schedule*"))


def test_a_killed_leader_is_followed_at_once_on_the_same_machine(
    settings: Settings, engine: Engine
) -> None:
    with role(settings, "beat") as first:
        wait_until(leads(engine, first))
        with role(settings, "beat") as second:
            wait_until(lambda: "beat started" in second.log)
            first.signal(signal.SIGKILL)
            first.wait()
            # at the next try; the lease itself would live on for up to 15 s
            wait_until(leads(engine, second), timeout=8)
            take_all(settings, Manager.TASK)
            wait_until(lambda: take_all(settings, Manager.TASK))


def test_a_frozen_leader_is_followed_and_stands_by_when_it_wakes(
    settings: Settings, engine: Engine
) -> None:
    with role(settings, "beat") as first:
        wait_until(leads(engine, first))
        with role(settings, "beat") as second:
            wait_until(lambda: "beat started" in second.log)
            first.signal(signal.SIGSTOP)
            wait_until(leads(engine, second), timeout=beat.LEASE_SECONDS + 8)
            take_all(settings, Manager.TASK)
            wait_until(lambda: take_all(settings, Manager.TASK))
            first.signal(signal.SIGCONT)
            wait_until(lambda: "another beat leads now" in first.log)
            assert leader(engine) == second.pid


def test_a_leader_that_ends_in_order_hands_over(settings: Settings, engine: Engine) -> None:
    with role(settings, "beat") as first:
        wait_until(leads(engine, first))
        first.signal(signal.SIGTERM)
        assert first.wait(5) == 0
        assert leader(engine) is None


def test_two_beats_send_no_more_than_one(settings: Settings, engine: Engine) -> None:
    """Counted over the time in which the leader ticks ten times."""
    with role(settings, "beat") as first:
        wait_until(leads(engine, first))
        with role(settings, "beat") as second:
            wait_until(lambda: "beat started" in second.log)
            for manager in Manager:
                take_all(settings, manager)
            counts = dict.fromkeys(Manager, 0)

            def counted() -> bool:
                for manager in Manager:
                    counts[manager] += take_all(settings, manager)
                return counts[Manager.TASK] >= 10

            wait_until(counted, timeout=30)
            assert max(counts.values()) - min(counts.values()) <= 2


def test_beat_goes_on_ticking_while_the_database_is_away(
    settings: Settings, engine: Engine
) -> None:
    with role(settings, "beat") as started:
        wait_until(leads(engine, started))
        shut_out(engine)
        wait_until(lambda: "ticking anyway" in started.log)
        take_all(settings, Manager.TASK)
        wait_until(lambda: take_all(settings, Manager.TASK))
        said = health.read(settings.data_dir, "beat")
        assert said is not None
        assert dict(said.reasons) == {"database": "not reachable"}


def test_a_beat_without_a_schema_says_so_and_stops(
    empty_database_url: str, settings: Settings
) -> None:
    empty = settings.model_copy(update={"database_url": empty_database_url})
    with role(empty, "beat") as started:
        assert started.wait() == 2
        assert "dispatcher migrate" in started.log
        assert "Traceback" not in started.log


def test_a_beat_that_finds_no_database_waits_and_says_so(settings: Settings) -> None:
    away = settings.model_copy(update={"database_url": "postgresql://nobody@127.0.0.1:1/none"})
    with role(away, "beat") as started:
        wait_until(lambda: "waiting for the database" in started.log)
        started.signal(signal.SIGTERM)
        assert started.wait(8) == 0
        assert "Traceback" not in started.log


def test_a_role_without_a_database_url_is_one_line_and_code_2(settings: Settings) -> None:
    nothing = Settings(data_dir=settings.data_dir)
    for name in ("beat", "control"):
        with role(nothing, name) as started:
            assert started.wait() == 2
            assert started.log.splitlines()[0].startswith("DISPATCHER_DATABASE_URL: not set")
            assert "Traceback" not in started.log


def test_a_beat_whose_metrics_port_is_taken_says_so_and_stops(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with role(settings.model_copy(update={"beat_metrics_port": port}), "beat") as started:
            assert started.wait() == 2
            (line,) = started.log.splitlines()
            assert line.startswith(f"DISPATCHER_BEAT_METRICS_PORT: 127.0.0.1:{port}: ")


def test_a_beat_that_a_migration_has_left_behind_stops_and_gives_its_lease_back(
    settings: Settings, engine: Engine
) -> None:
    leadership = beat.Leadership(engine, SchemaWatch(every=0))
    assert leadership.ticks()
    with engine.begin() as connection:
        connection.execute(text("UPDATE schema_info SET min_code = 1000"))
    said = Health(settings, "beat")
    with pytest.raises(SchemaError, match="needs code version 1000"):
        beat.tick_until(settings, leadership, said, threading.Event())
    assert leader(engine) is None


def test_a_beat_measures_its_machines_clock(settings: Settings) -> None:
    port = free_port()
    with role(settings.model_copy(update={"beat_metrics_port": port}), "beat"):

        def difference() -> float | None:
            try:
                lines = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text
            except requests.ConnectionError:
                return None
            (value,) = [
                line.split()[1]
                for line in lines.splitlines()
                if line.startswith("dispatcher_clock_difference_seconds ")
            ]
            return float(value) or None  # 0 until it was measured

        assert abs(wait_until(difference)) < 5
