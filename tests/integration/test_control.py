"""Control processes: every queue consumed, killed children replaced, jobs started without a broker."""

from __future__ import annotations

import ast
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from dispatcher import health
from dispatcher.broker.celery_app import make_app
from dispatcher.broker.messages import Manager, wake
from dispatcher.broker.publish import Publisher
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.settings import Settings
from tests.factories import make_job, make_node
from tests.passes import changed, statuses, submitted
from tests.roles import ROOT, Role, children_of, command_line, is_alive, role
from tests.waiting import wait_until


@pytest.fixture
def quiet(settings: Settings) -> Settings:
    """No beat, and a timer that is far away: only wake-ups make passes."""
    return settings.model_copy(update={"manager_period": 60.0, "recovery_period": 60.0})


@pytest.fixture
def own_valkey(data_dir: Path) -> Iterator[EmbeddedValkey]:
    server = EmbeddedValkey(data_dir / "own", tcp=True, durable=False)
    server.start()
    yield server
    server.stop()


def passes(engine: Engine) -> dict[str, Any]:
    """When each manager last completed a pass."""
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT manager, last_pass_at FROM manager_lease"))
        return {manager: at for manager, at in rows if manager in set(map(str, Manager))}


def all_ran(engine: Engine) -> bool:
    return all(passes(engine).values())


def launch(engine: Engine, count: int = 1, **columns: Any) -> None:
    with changed(engine) as connection:
        for _ in range(count):
            make_job(connection, **columns)


def publisher(settings: Settings) -> Publisher:
    return Publisher(make_app(settings, profile="publisher"))


def pool_children(started: Role) -> list[int]:
    """The processes in which workers run passes: grandchildren of the parent, forked from it."""
    direct = {
        int(p) for p in Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    }
    return [
        pid
        for pid in children_of(started.pid)
        if pid not in direct and "control" in command_line(pid)
    ]


def test_every_manager_runs_once_control_is_up_and_a_wake_up_starts_jobs(
    engine: Engine, quiet: Settings
) -> None:
    with role(quiet, "control") as control:
        wait_until(lambda: all_ran(engine), timeout=40)
        with changed(engine) as connection:
            make_node(connection)
            make_job(connection, dependencies_processed=False)
        publisher(quiet).publish(wake(Manager.DEPENDENCY))
        # the DependencyManager wakes the TaskManager
        wait_until(lambda: statuses(engine) == {"waiting": 1})
        wait_until(lambda: submitted(quiet, "n1"))
        said = wait_until(lambda: health.read(quiet.data_dir, "control"))
        assert said.ready
        descendants = children_of(control.pid)
        control.signal(signal.SIGTERM)
        assert control.wait(8) == 0
        assert not [pid for pid in descendants if is_alive(pid)]
        assert "Traceback" not in control.log
    assert health.read(quiet.data_dir, "control") is None, "what has ended is not ready"
    assert not list((quiet.data_dir / "metrics").iterdir())


def test_a_killed_child_is_replaced_and_passes_go_on(engine: Engine, quiet: Settings) -> None:
    with role(quiet, "control") as control:
        wait_until(lambda: all_ran(engine), timeout=40)
        victims = children_of(control.pid)
        with changed(engine) as connection:
            make_node(connection)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        launch(engine)

        def woken() -> bool:
            publisher(quiet).publish(wake(Manager.TASK))
            return statuses(engine) == {"waiting": 1}

        wait_until(woken, timeout=40)
        assert not [pid for pid in victims if is_alive(pid)]
        wait_until(lambda: len(children_of(control.pid)) == len(victims))


def test_a_manager_killed_inside_a_pass_is_followed_at_once(
    engine: Engine, quiet: Settings
) -> None:
    """The lease names a process of this machine that is gone: nobody waits for its end."""
    with role(quiet, "control") as control:
        wait_until(lambda: all_ran(engine), timeout=40)
        with changed(engine) as connection:
            make_node(connection)
            job_id = make_job(connection)
        with engine.begin() as connection:
            # the pass has taken its lease and waits for this table in its first snapshot
            connection.execute(text("LOCK TABLE change IN ACCESS EXCLUSIVE MODE"))
            publisher(quiet).publish(wake(Manager.TASK))
            holder = wait_until(lambda: task_holder(engine))
            assert holder in pool_children(control)
            os.kill(holder, signal.SIGKILL)
            connection.rollback()

        def woken() -> bool:
            publisher(quiet).trigger(Manager.TASK, "test")
            return statuses(engine) == {"waiting": 1}

        wait_until(woken, timeout=12)
        assert job_id


def test_jobs_are_started_while_the_managers_workers_are_frozen(
    engine: Engine, settings: Settings
) -> None:
    """The broker answers, and nobody takes the triggers: the timer runs the passes itself."""
    settings = settings.model_copy(update={"manager_period": 1.0, "recovery_period": 1.0})
    with role(settings, "control") as control:
        wait_until(lambda: all_ran(engine), timeout=40)
        with changed(engine) as connection:
            make_node(connection)
        for pid in pool_children(control):
            os.kill(pid, signal.SIGSTOP)
        launch(engine)
        # one that froze inside a pass is followed when its lease ends
        wait_until(lambda: statuses(engine) == {"waiting": 1}, timeout=60)


def task_holder(engine: Engine) -> int | None:
    with engine.connect() as connection:
        pid: int | None = connection.scalar(
            text("SELECT pid FROM manager_lease WHERE manager = 'task' AND holder IS NOT NULL")
        )
        return pid


def test_a_control_that_was_frozen_goes_on(engine: Engine, quiet: Settings) -> None:
    with role(quiet, "control") as control:
        wait_until(lambda: all_ran(engine), timeout=40)
        control.signal(signal.SIGSTOP)
        # longer than it waits for a signal: then CPython answers one that never came
        frozen_until = time.monotonic() + 1.5
        wait_until(lambda: time.monotonic() > frozen_until)
        control.signal(signal.SIGCONT)
        victim = pool_children(control)[0]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: not is_alive(victim))
        wait_until(lambda: len(pool_children(control)) == len(Manager))
        assert "control stopped" not in control.log
        assert control.process.poll() is None


def test_children_end_with_a_killed_parent(engine: Engine, quiet: Settings) -> None:
    with role(quiet, "control") as control:
        wait_until(lambda: all_ran(engine), timeout=40)
        descendants = children_of(control.pid)
        assert len(descendants) == 2 * len(Manager) + 1
        control.signal(signal.SIGKILL)
        control.wait()
        wait_until(lambda: not [pid for pid in descendants if is_alive(pid)])


def test_jobs_are_started_while_the_broker_is_away_and_after_it_came_back(
    engine: Engine, settings: Settings, own_valkey: EmbeddedValkey
) -> None:
    settings = settings.model_copy(
        update={"broker_url": own_valkey.url(), "manager_period": 1.0, "recovery_period": 1.0}
    )
    with role(settings, "control") as control:
        wait_until(lambda: all_ran(engine), timeout=40)
        with changed(engine) as connection:
            make_node(connection)
        own_valkey.stop()
        launch(engine)
        wait_until(lambda: statuses(engine) == {"waiting": 1}, timeout=40)
        assert "Traceback" not in control.log
        before = passes(engine)
        wait_until(lambda: passes(engine)["task"] > before["task"], timeout=40)
        shared = (settings.data_dir / "metrics").glob("control-*/*.db")
        owners = {int(file.stem.rpartition("_")[2]) for file in shared}
        assert owners <= {control.pid, *children_of(control.pid)}, "no files of short children"
        own_valkey.start()
        launch(engine)
        wait_until(lambda: statuses(engine) == {"waiting": 2}, timeout=40)
        wait_until(lambda: ready(settings), timeout=40)


def ready(settings: Settings) -> bool:
    said = health.read(settings.data_dir, "control")
    return said is not None and said.ready


def test_the_timer_triggers_managers_without_any_beat(engine: Engine, settings: Settings) -> None:
    settings = settings.model_copy(update={"manager_period": 0.5, "recovery_period": 0.5})
    with role(settings, "control"):
        wait_until(lambda: all_ran(engine), timeout=40)
        before = passes(engine)
        wait_until(lambda: all(passes(engine)[m] > before[m] for m in before), timeout=40)


def test_health_and_metrics_of_all_children_are_served_on_one_port(
    engine: Engine, quiet: Settings
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with role(quiet.model_copy(update={"control_metrics_port": port}), "control"):
        wait_until(lambda: all_ran(engine), timeout=40)
        wait_until(lambda: ready(quiet))
        for path in ("healthz", "readyz"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
                assert answer.status == 200

        def metrics() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                lines = answer.read().decode().splitlines()
            return all(
                any(
                    line.startswith(
                        f'dispatcher_manager_phase_seconds_count{{manager="{m}",phase="{p}"}}'
                    )
                    for line in lines
                )
                for m in Manager
                for p in ("lock", "load", "plan", "apply", "commit", "submit", "total")
            ) and any(line.startswith("dispatcher_clock_difference_seconds ") for line in lines)

        wait_until(metrics)


def test_the_database_connections_of_control_are_one_for_each_child_and_the_timer(
    engine: Engine, settings: Settings
) -> None:
    # long enough that no pass runs in a process of its own, as when nobody takes the triggers
    settings = settings.model_copy(update={"manager_period": 2.0, "recovery_period": 2.0})
    most = 0
    with role(settings, "control"):
        wait_until(lambda: all_ran(engine), timeout=40)
        before = passes(engine)

        def gone_on() -> bool:
            nonlocal most
            with engine.connect() as connection:
                most = max(
                    most,
                    connection.execute(
                        text(
                            "SELECT count(*) FROM pg_stat_activity WHERE datname ="
                            " current_database() AND application_name LIKE 'dispatcher %'"
                        )
                    ).scalar_one(),
                )
            return all(passes(engine)[m] > before[m] for m in before)

        wait_until(gone_on, timeout=40)
    assert most <= len(Manager) + 1


def test_a_control_without_a_schema_says_so_and_stops(
    empty_database_url: str, quiet: Settings
) -> None:
    with role(quiet.model_copy(update={"database_url": empty_database_url}), "control") as control:
        assert control.wait() == 2
        assert "dispatcher migrate" in control.log
        assert "Traceback" not in control.log


def test_a_control_that_finds_no_database_waits_and_can_be_ended(quiet: Settings) -> None:
    away = quiet.model_copy(update={"database_url": "postgresql://nobody@127.0.0.1:1/none"})
    with role(away, "control") as control:
        wait_until(lambda: "waiting for the database" in control.log)
        said = health.read(away.data_dir, "control")
        assert said is not None
        assert dict(said.reasons) == {"database": "not reachable"}
        control.signal(signal.SIGTERM)
        assert control.wait(5) == 0
        assert "Traceback" not in control.log


def test_a_control_whose_metrics_port_is_taken_says_so_and_stops(quiet: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with role(quiet.model_copy(update={"control_metrics_port": port}), "control") as control:
            assert control.wait() == 2
            assert f"DISPATCHER_CONTROL_METRICS_PORT: 127.0.0.1:{port}: " in control.log
            assert len(control.log.splitlines()) == 1
    assert health.read(quiet.data_dir, "control") is None


def test_a_control_that_a_migration_has_left_behind_stops(engine: Engine, quiet: Settings) -> None:
    """A new pool process looks at once; one that is at work looks once a minute."""
    with role(quiet, "control") as control:
        wait_until(lambda: all_ran(engine), timeout=40)
        with engine.begin() as connection:
            connection.execute(text("UPDATE schema_info SET min_code = 1000"))
        before = passes(engine)
        for pid in pool_children(control):
            os.kill(pid, signal.SIGKILL)

        def ended() -> bool:
            publisher(quiet).trigger(Manager.TASK, "test")
            return control.process.poll() is not None

        wait_until(ended, timeout=40)
        assert control.wait() == 2
        assert control.log.count("the schema needs code version 1000") == 1
        assert passes(engine) == before
    assert health.read(quiet.data_dir, "control") is None


def test_passes_without_messages_are_run_as_safely_as_their_role() -> None:
    words = "from schedulers.passes.timer import pass_command as c; print(c(['task'])[1:])"
    for flags, expected in ((["-P"], ["-P", "-m"]), ([], ["-m"])):
        said = subprocess.run(
            [sys.executable, *flags, "-c", words],
            env={"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ast.literal_eval(said.stdout) == [*expected, "schedulers.passes.app", "pass", "task"]


def test_a_pass_by_hand_names_unknown_managers(settings: Settings) -> None:
    with role(settings, "pass", "nonsense") as started:
        assert started.wait() == 2
        assert "no such manager: nonsense" in started.log
