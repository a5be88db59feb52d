"""Health of roles: the file, its age, and what is missing. No sockets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dispatcher import clock, health
from dispatcher import settings as settings_module
from dispatcher.health import Health


@pytest.fixture
def role(tmp_path: Path) -> Health:
    return Health(settings_module.load(data_dir=tmp_path), "beat")


def test_a_role_that_never_said_anything_has_no_health(tmp_path: Path) -> None:
    assert health.read(tmp_path, "beat") is None


def test_what_is_missing_is_named_and_nothing_missing_is_ready(
    role: Health, tmp_path: Path
) -> None:
    role.say({"database": "not reachable"})
    said = health.read(tmp_path, "beat")
    assert said is not None
    assert (said.ready, said.alive, dict(said.reasons)) == (
        False,
        True,
        {"database": "not reachable"},
    )
    assert not role.ready()
    role.say({})
    said = health.read(tmp_path, "beat")
    assert said is not None
    assert said.ready
    assert role.ready()


def test_what_was_said_long_ago_or_before_the_boot_counts_for_nothing(
    role: Health, tmp_path: Path
) -> None:
    role.say({})
    file = health.path(tmp_path, "beat")
    content = json.loads(file.read_text())
    for change in (
        {"boottime": clock.boottime() - health.STALE_AFTER - 1},
        {"boot_id": "another boot"},
    ):
        file.write_text(json.dumps(content | change))
        said = health.read(tmp_path, "beat")
        assert said is not None
        assert not said.alive


def test_a_file_that_cannot_be_read_is_no_health(role: Health, tmp_path: Path) -> None:
    role.say({})
    for broken in ("", "[]", "{}", '{"ready": true}'):
        health.path(tmp_path, "beat").write_text(broken)
        assert health.read(tmp_path, "beat") is None


def test_a_file_that_cannot_be_written_ends_no_role_and_is_said_once(
    role: Health, tmp_path: Path
) -> None:
    place = health.path(tmp_path, "beat").parent
    place.write_text("no directory")
    with capture_logs() as logged:
        role.say({})
        role.say({"database": "not reachable"})
    assert [record["event"] for record in logged] == ["the health file cannot be written"]
    assert role.reasons() == {"database": "not reachable"}
    place.unlink()
    role.say({})
    said = health.read(tmp_path, "beat")
    assert said is not None
    assert said.ready


def test_a_role_that_ends_in_order_takes_its_file_along(role: Health, tmp_path: Path) -> None:
    role.say({})
    role.close()
    assert health.read(tmp_path, "beat") is None
