"""What ``dispatcher up`` leaves behind for others, and what its roles are given."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from dispatcher import settings as settings_module
from dispatcher.embedded.processes import ProcessMark
from dispatcher.embedded.roles import standard_roles
from dispatcher.embedded.state import ProcessState, StackState, node_data_dir
from dispatcher.health import Health

MARK = ProcessMark(4242, 77, "another boot")
STATE = StackState(
    up=MARK,
    phase="ready",
    started="2026-01-01T00:00:00+00:00",
    key_file=Path("/d/cluster.key"),
    token_file=Path("/d/token"),
    api_url="http://127.0.0.1:8052",
    database_url="postgresql://dispatcher@/dispatcher?host=%2Fd",
    broker_url="redis+socket:///d/s",
    processes=(ProcessState("postgresql", MARK, "ready"), ProcessState("api", None, "down", 3)),
)


def test_a_stack_is_read_as_it_was_written(tmp_path: Path) -> None:
    STATE.write(tmp_path)
    assert StackState.read(tmp_path) == STATE
    assert not STATE.alive, "a pid of another boot is nobody"


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", "null", '{"format": 1}', '{"format": 9}', '{"format": 1, "up": {"pid": "x"}}'],
)
def test_a_description_that_cannot_be_understood_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "stack.json").write_text(content)
    assert StackState.read(tmp_path) is None


def test_a_description_of_another_format_is_none(tmp_path: Path) -> None:
    STATE.write(tmp_path)
    file = tmp_path / "stack.json"
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))
    assert StackState.read(tmp_path) is None


def test_a_token_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    state = replace(STATE, token_file=tmp_path / "token")
    assert state.token() is None
    state.token_file.write_text("dsp_x\n")
    assert state.token() == "dsp_x"


def test_every_node_of_a_machine_has_a_directory_of_its_own() -> None:
    base = Path("/var/lib/dispatcher")
    assert node_data_dir(base, "n2") == base / "nodes" / "n2"
    long = [f"ip-10-0-0-{n}.eu-central-1.compute.internal" for n in (1, 2)]
    first, second = (node_data_dir(base, name) for name in long)
    assert first != second
    assert len(first.name) == len(second.name) == 24


def test_the_roles_of_a_stack_can_stop_in_time_and_share_one_set_of_servers() -> None:
    settings = settings_module.load(
        data_dir=Path("/d"), node_name="n1", stop_policy="drain", stop_grace=30.0
    ).model_copy(update={"database_url": "postgresql://x/y", "key_file": Path("/d/cluster.key")})
    roles = {role.name: role for role in standard_roles(settings, "http://127.0.0.1:1")}
    assert list(roles) == ["api", "beat", "control", "worker"]
    worker = settings_module.environment(roles["worker"].settings)
    assert worker["DISPATCHER_STOP_POLICY"] == "cancel"
    assert float(worker["DISPATCHER_STOP_GRACE"]) <= 2
    assert worker["DISPATCHER_DATA_DIR"] == "/d/nodes/n1"
    assert worker["DISPATCHER_KEY_FILE"] == "/d/cluster.key"
    api = settings_module.environment(roles["api"].settings)
    assert (api["DISPATCHER_DATA_DIR"], api["DISPATCHER_STOP_POLICY"]) == ("/d", "drain")
    assert {api["DISPATCHER_DATABASE_URL"], worker["DISPATCHER_DATABASE_URL"]} == {
        "postgresql://x/y"
    }


def test_a_role_is_ready_on_its_own_word_and_not_on_that_of_an_earlier_process(
    tmp_path: Path,
) -> None:
    settings = settings_module.load(data_dir=tmp_path, node_name="n1")
    beat = standard_roles(settings, "http://127.0.0.1:1")[1]
    assert not beat.ready(os.getpid()), "nothing was said yet"
    said = Health(settings, "beat")
    said.say({"database": "not reachable"})
    assert not beat.ready(os.getpid())
    said.say({})
    assert beat.ready(os.getpid())
    assert beat.ready(os.getppid()), "a child of the role may say it"
    assert not beat.ready(2**30)
