"""The process tree of ``dispatcher up``, with small roles: start, stop, crash, and who finds it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from dispatcher import settings as settings_module
from dispatcher.embedded.background import stop_stack
from dispatcher.embedded.processes import ProcessMark
from dispatcher.embedded.state import StackState, running_stack, settings_with_running_stack
from tests.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]


@dataclass
class Up:
    """A running ``small_stack``."""

    process: subprocess.Popen[str]
    data_dir: Path

    def ready(self) -> StackState:
        def look() -> StackState | None:
            assert self.process.poll() is None, self.process.communicate()
            state = running_stack(self.data_dir)
            return state if state and state.phase == "ready" else None

        state = wait_until(look, timeout=60, what="the stack is ready")
        assert state is not None
        return state

    def ended(self, timeout: float = 30) -> tuple[int, str]:
        """Exit code and what it said."""
        _, said = self.process.communicate(timeout=timeout)
        return self.process.returncode, said


StartUp = Callable[..., Up]


@pytest.fixture
def start_up(data_dir: Path) -> Iterator[StartUp]:
    """A function that starts a stack of small roles on the test's data directory."""
    started: list[Up] = []

    def start(*roles: str, **variables: str) -> Up:
        process = subprocess.Popen(
            [sys.executable, REPOSITORY / "tests" / "small_stack.py", *roles],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(REPOSITORY),
                "DISPATCHER_DATA_DIR": str(data_dir),
                **variables,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(Up(process, data_dir))
        return started[-1]

    yield start
    for up in started:
        if up.process.poll() is None:
            up.process.terminate()
        up.process.communicate(timeout=30)
    stop_stack(data_dir)


@pytest.fixture
def servers(database_url: str, broker_url: str) -> dict[str, str]:
    """Variables that make the stack use the session's servers: it starts faster."""
    return {"DISPATCHER_DATABASE_URL": database_url, "DISPATCHER_BROKER_URL": broker_url}


def marks(state: StackState) -> dict[str, ProcessMark]:
    found = {process.name: process.mark for process in state.processes}
    assert None not in found.values()
    return {name: mark for name, mark in found.items() if mark is not None}


def process_state(state: StackState, name: str) -> Any:
    return next(process for process in state.processes if process.name == name)


def mark_in(file: Path) -> ProcessMark:
    mark = ProcessMark.of(int(wait_until(lambda: file.exists() and file.read_text())))
    assert mark is not None
    return mark


def query(url: str, statement: str) -> Any:
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone() if cursor.description else None
    finally:
        connection.close()


# -- start and stop


def test_a_stack_starts_describes_itself_and_leaves_nothing_when_stopped(
    start_up: StartUp, data_dir: Path
) -> None:
    up = start_up("good")
    state = up.ready()
    assert list(marks(state)) == ["postgresql", "valkey", "good"]
    assert all(process.state == "ready" for process in state.processes)
    assert state.up.pid == up.process.pid
    for private in ("stack.json", "token", "cluster.key"):
        assert stat.S_IMODE((data_dir / private).stat().st_mode) == 0o600
    token = state.token()
    assert token
    assert token.startswith("dsp_")
    assert query(state.database_url, "SELECT count(*) FROM api_token") == (1,)

    up.process.send_signal(signal.SIGINT)
    assert up.ended()[0] == 0
    assert not any(mark.alive() for mark in marks(state).values())
    assert running_stack(data_dir) is None


def test_data_and_token_survive_a_restart(start_up: StartUp) -> None:
    up = start_up("good")
    state = up.ready()
    query(state.database_url, "CREATE TABLE kept AS SELECT 42 AS answer")
    up.process.terminate()
    up.ended()
    again = start_up("good").ready()
    assert query(again.database_url, "SELECT answer FROM kept") == (42,)
    assert again.token() == state.token()
    assert query(again.database_url, "SELECT count(*) FROM api_token") == (1,)


def test_a_token_that_the_database_does_not_know_is_replaced(
    start_up: StartUp, servers: dict[str, str], data_dir: Path
) -> None:
    (data_dir / "token").write_text("dsp_of_another_database\n")
    state = start_up("good", **servers).ready()
    assert state.token() != "dsp_of_another_database"
    assert query(servers["DISPATCHER_DATABASE_URL"], "SELECT name FROM api_token") == ("up",)


def test_roles_get_the_settings_and_no_token(
    start_up: StartUp, servers: dict[str, str], data_dir: Path
) -> None:
    given = {"DISPATCHER_TOKEN": "mine", "DISPATCHER_URL": "http://elsewhere", "OTHER": "kept"}
    start_up("good", DISPATCHER_HEARTBEAT="3", **given, **servers).ready()
    environ = dict(
        line.partition("=")[::2] for line in (data_dir / "good.environ").read_text().splitlines()
    )
    assert environ["DISPATCHER_DATABASE_URL"] == servers["DISPATCHER_DATABASE_URL"]
    assert environ["DISPATCHER_BROKER_URL"] == servers["DISPATCHER_BROKER_URL"]
    assert environ["DISPATCHER_KEY_FILE"] == str(data_dir / "cluster.key")
    assert float(environ["DISPATCHER_HEARTBEAT"]) == 3
    assert int(environ["DISPATCHER_API_PORT"]) >= 8052
    assert environ["OTHER"] == "kept"
    assert not {"DISPATCHER_TOKEN", "DISPATCHER_URL"} & environ.keys()


def test_servers_whose_urls_are_set_are_not_started(
    start_up: StartUp, servers: dict[str, str], data_dir: Path
) -> None:
    state = start_up("good", **servers).ready()
    assert list(marks(state)) == ["good"]
    assert state.database_url == servers["DISPATCHER_DATABASE_URL"]
    assert not (data_dir / "postgres").exists()


def test_a_second_up_says_that_one_runs(start_up: StartUp, servers: dict[str, str]) -> None:
    first = start_up("good", **servers)
    state = first.ready()
    code, said = start_up("good", **servers).ended()
    assert code == 2
    assert f"runs already on {first.data_dir} (pid {first.process.pid}, API at" in said
    assert state.api_url in said
    assert first.ready() == state, "the first one is not disturbed"


def test_stopping_kills_what_does_not_end_and_leaves_no_orphan(
    start_up: StartUp, servers: dict[str, str], data_dir: Path
) -> None:
    up = start_up("stubborn", **servers)
    state = up.ready()
    left = [mark_in(data_dir / "orphan"), mark_in(data_dir / "sibling"), marks(state)["stubborn"]]
    up.process.terminate()
    code, said = up.ended()
    assert code == 0
    assert "stubborn does not end; it is killed" in said
    assert not any(mark.alive() for mark in left)


def test_a_second_signal_ends_the_patience(start_up: StartUp, servers: dict[str, str]) -> None:
    up = start_up("stubborn", **servers)
    state = up.ready()
    up.process.send_signal(signal.SIGINT)
    wait_until(lambda: (StackState.read(up.data_dir) or state).phase == "stopping")
    began = time.monotonic()
    up.process.send_signal(signal.SIGINT)
    assert up.ended()[0] == 0
    assert time.monotonic() - began < 5
    assert not any(mark.alive() for mark in marks(state).values())


def test_a_signal_while_it_starts_stops_it_in_order(start_up: StartUp, data_dir: Path) -> None:
    up = start_up("good")
    wait_until(lambda: running_stack(data_dir))
    up.process.terminate()
    assert up.ended()[0] == 0
    assert not (data_dir / "stack.json").exists()
    assert start_up("good").ready().phase == "ready", "the next one finds nothing in its way"


# -- roles that end by themselves


def test_a_role_that_refuses_its_settings_ends_the_start_with_its_words(
    start_up: StartUp, servers: dict[str, str]
) -> None:
    code, said = start_up("good", "refusing", **servers).ended()
    assert code == 2
    assert "refusing: DISPATCHER_FOO: is not to my liking" in said


def test_a_role_that_fails_is_started_again(
    start_up: StartUp, servers: dict[str, str], data_dir: Path
) -> None:
    state = start_up("shaky", **servers).ready()
    assert (data_dir / "tries").read_text() == "3"
    assert process_state(state, "shaky").restarts == 2


def test_a_killed_role_is_started_again_and_the_others_are_not(
    start_up: StartUp, servers: dict[str, str]
) -> None:
    up = start_up("good", "shaky", **servers)
    before = marks(up.ready())
    os.kill(before["good"].pid, signal.SIGKILL)

    def replaced() -> bool:
        now = process_state(up.ready(), "good")
        return now.state == "ready" and now.mark != before["good"]

    wait_until(replaced, what="good runs again")
    state = up.ready()
    assert process_state(state, "good").restarts == 1
    assert marks(state)["shaky"] == before["shaky"]


def test_a_killed_role_is_not_started_beside_what_it_left(
    start_up: StartUp, servers: dict[str, str], data_dir: Path
) -> None:
    up = start_up("stubborn", **servers)
    before = marks(up.ready())["stubborn"]
    sibling, own_session = mark_in(data_dir / "sibling"), mark_in(data_dir / "orphan")
    before.stop([(signal.SIGKILL, 5)])

    def runs_again() -> bool:
        now = process_state(up.ready(), "stubborn")
        return now.restarts == 1 and now.state == "ready"

    wait_until(runs_again)
    assert not sibling.alive()
    assert own_session.alive(), "sessions of their own are supervisors': they go on"


def test_a_server_that_cannot_start_again_is_tried_until_it_can(
    start_up: StartUp, data_dir: Path
) -> None:
    up = start_up("good")
    state = up.ready()
    wrong = data_dir / "postgres" / "data" / "postgresql.auto.conf"
    wrong.write_text("max_connections = many\n")
    os.kill(marks(state)["postgresql"].pid, signal.SIGKILL)
    wait_until(lambda: process_state(up.ready(), "postgresql").state == "down")
    wrong.write_text("")
    wait_until(lambda: process_state(up.ready(), "postgresql").state == "ready")
    assert marks(up.ready())["good"] == marks(state)["good"]


@pytest.mark.parametrize("name", ["postgresql", "valkey"])
def test_a_killed_server_is_started_again_with_its_data(start_up: StartUp, name: str) -> None:
    up = start_up("good")
    before = up.ready()
    query(before.database_url, "CREATE TABLE kept AS SELECT 42 AS answer")
    os.kill(marks(before)[name].pid, signal.SIGKILL)
    wait_until(lambda: process_state(up.ready(), name).restarts == 1, what=f"{name} runs again")
    after = up.ready()
    assert (after.database_url, after.broker_url) == (before.database_url, before.broker_url)
    assert query(after.database_url, "SELECT answer FROM kept") == (42,)
    assert marks(after)["good"] == marks(before)["good"]


# -- a crash


def test_after_a_kill_nothing_runs_and_the_next_up_recovers(
    start_up: StartUp, data_dir: Path
) -> None:
    up = start_up("good")
    state = up.ready()
    query(state.database_url, "CREATE TABLE kept AS SELECT 42 AS answer")
    up.process.kill()
    up.ended()
    for name, mark in marks(state).items():
        wait_until(lambda mark=mark: not mark.alive(), what=f"{name} ends with its parent")
    assert running_stack(data_dir) is None
    assert StackState.read(data_dir) is not None, "a crash leaves its description"
    again = start_up("good").ready()
    assert query(again.database_url, "SELECT answer FROM kept") == (42,)
    assert again.token() == state.token()


def test_the_next_up_ends_what_a_killed_one_left_behind_and_spares_supervisors(
    start_up: StartUp, servers: dict[str, str], data_dir: Path
) -> None:
    up = start_up("stubborn", **servers)
    state = up.ready()
    own_session, sibling = mark_in(data_dir / "orphan"), mark_in(data_dir / "sibling")
    up.process.kill()
    up.ended()
    assert marks(state)["stubborn"].alive()
    start_up("good", **servers).ready()
    assert not marks(state)["stubborn"].alive()
    assert not sibling.alive()
    assert own_session.alive(), "sessions of their own are supervisors': their agent adopts them"
    own_session.stop([(signal.SIGKILL, 5)])


def test_a_process_that_only_got_the_pid_is_left_alone(
    start_up: StartUp, servers: dict[str, str], data_dir: Path
) -> None:
    bystander = subprocess.Popen(["sleep", "300"], start_new_session=True)
    up = start_up("good", **servers)
    state = up.ready()
    up.process.kill()
    up.ended()
    mark = ProcessMark.of(bystander.pid)
    assert mark is not None
    other = ProcessMark(mark.pid, mark.start - 1, mark.boot_id)
    process = state.processes[0]
    changed = type(process)(process.name, other, process.state, process.restarts)
    type(state)(**(vars(state) | {"processes": (changed,)})).write(data_dir)
    start_up("good", **servers).ready()
    assert mark.alive()
    bystander.kill()
    bystander.wait()


# -- others find it


def test_commands_find_the_running_stack(start_up: StartUp, data_dir: Path, tmp_path: Path) -> None:
    alone = settings_module.load(data_dir=data_dir)
    assert settings_with_running_stack(alone) is alone
    up = start_up("good")
    state = up.ready()
    found = settings_with_running_stack(alone)
    assert (found.database_url, found.broker_url) == (state.database_url, state.broker_url)
    assert found.key_file == data_dir / "cluster.key"
    assert found.token is None
    elsewhere = settings_module.load(data_dir=data_dir, database_url="postgresql://db/x")
    assert settings_with_running_stack(elsewhere) is elsewhere
    assert settings_with_running_stack(settings_module.load(data_dir=tmp_path)).database_url is None


def test_stopping_from_elsewhere_stops_everything(
    start_up: StartUp, servers: dict[str, str], data_dir: Path
) -> None:
    assert stop_stack(data_dir) is False
    up = start_up("good", **servers)
    state = up.ready()
    assert stop_stack(data_dir) is True
    assert up.ended()[0] == 0
    assert not any(mark.alive() for mark in marks(state).values())


def test_stopping_from_elsewhere_cleans_up_after_a_crash(
    start_up: StartUp, servers: dict[str, str], data_dir: Path
) -> None:
    up = start_up("stubborn", **servers)
    state = up.ready()
    orphan = mark_in(data_dir / "orphan")
    up.process.kill()
    up.ended()
    assert stop_stack(data_dir) is True
    assert not marks(state)["stubborn"].alive()
    assert not (data_dir / "stack.json").exists()
    orphan.stop([(signal.SIGKILL, 5)])
