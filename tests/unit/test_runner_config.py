"""An old configuration is judged key by key."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatcher.cli.migrate_runner_service import migrate_runner_service
from dispatcher.domain.runner_config import TAKEN, judge
from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings


def verdicts(**document: object) -> dict[str, str]:
    return {found.key: found.verdict for found in judge(document)}


def test_keys_are_taken_ignored_or_dangerous() -> None:
    assert verdicts(port=50001, ssh_checks=False, runner_cache_size=5, whatever=1, debug=True) == {
        "port": "taken",
        "ssh_checks": "taken",
        "runner_cache_size": "ignored",
        "whatever": "ignored",
        "debug": "dangerous",
    }
    assert verdicts(debug=False, artifacts_remove_age=7) == {
        "debug": "ignored",
        "artifacts_remove_age": "ignored",
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [("port", "x"), ("port", 70000), ("port", True), ("ssh_timeout", 0), ("ssh_checks", "no")],
)
def test_a_value_that_cannot_be_taken_is_wrong(key: str, value: object) -> None:
    assert verdicts(**{key: value}) == {key: "wrong"}


def test_every_key_that_is_taken_is_a_setting() -> None:
    assert {setting.lower() for setting, _ in TAKEN.values()} <= set(Settings.model_fields)


def test_the_command_prints_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(
        "port: 50001\npasswords: {admin: hidden}\nmystery: hidden\nip_address: 0.0.0.0\n"
    )
    migrate_runner_service(file)
    said = "".join(capsys.readouterr())
    assert "DISPATCHER_V1_PORT=50001" in said
    assert "dangerous  passwords" in said
    assert "dangerous  ip_address" in said
    assert "hidden" not in said


@pytest.mark.parametrize("text", ["[1]", "a: ["])
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "old.yaml").write_text(text)
    for file in ("old.yaml", "none.yaml"):
        with pytest.raises(ConfigurationError):
            migrate_runner_service(tmp_path / file)
