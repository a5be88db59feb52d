"""What makes a machine unfit to take jobs, and settings unfit to start with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dispatcher import settings as settings_module
from dispatcher.errors import ConfigurationError
from workers.node_identity import AgentLock, identity, make_data_dir
from workers.node_lease import assert_constants
from workers.trouble import why_unfit


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "node"
    make_data_dir(directory)
    return directory


def test_a_machine_with_room_rights_and_tools_is_fit(data_dir: Path) -> None:
    assert why_unfit(data_dir) == ""


def test_a_full_disk_is_named(data_dir: Path) -> None:
    assert "is full" in why_unfit(data_dir, least_bytes=1 << 60)


def test_a_directory_that_others_may_write_to_is_named(data_dir: Path) -> None:
    os.chmod(data_dir, 0o770)
    assert "can be written by others" in why_unfit(data_dir)


def test_a_directory_that_is_gone_is_named(data_dir: Path) -> None:
    (data_dir / "runs").rmdir()
    assert "cannot be written" in why_unfit(data_dir)


def test_a_missing_ansible_playbook_is_named(data_dir: Path, tmp_path: Path) -> None:
    assert "ansible-playbook is not installed" in why_unfit(data_dir, path=str(tmp_path))


def test_a_data_directory_keeps_its_identity(data_dir: Path) -> None:
    assert identity(data_dir) == identity(data_dir)


def test_a_damaged_identity_is_no_new_one(data_dir: Path) -> None:
    (data_dir / "node.json").write_text("{}")
    with pytest.raises(ConfigurationError, match=r"node\.json"):
        identity(data_dir)


def test_the_lock_says_which_process_holds_it(data_dir: Path) -> None:
    AgentLock(data_dir).take(patience=0)
    assert (data_dir / "agent.lock").read_text() == f"{os.getpid()}\n"


def test_the_default_settings_leave_fencing_its_margin() -> None:
    assert_constants(settings_module.Settings())


def test_a_margin_that_is_too_short_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="DISPATCHER_NODE_LOST_MARGIN"):
        assert_constants(settings_module.Settings(node_lost_margin=20.0))
