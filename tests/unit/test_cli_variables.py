"""`-e` and `--secret-var`: the forms of ansible-playbook, and no secret in a message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dispatcher.cli.variables import read_extra_vars, read_secret_vars
from dispatcher.errors import InvalidRequest


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a=1 b='two words' c=", {"a": "1", "b": "two words", "c": ""}),
        ("url=http://x/?q=1", {"url": "http://x/?q=1"}),
        (r"path=C:\temp", {"path": r"C:\temp"}),
        ("a=b#c", {"a": "b#c"}),
        ('{"a": {"b": [1, true, null]}}', {"a": {"b": [1, True, None]}}),
        ("{a: 1, day: 2026-01-02}", {"a": 1, "day": "2026-01-02"}),
        ("{a: {1: x}}", {"a": {"1": "x"}}),
        ("  a=ä ", {"a": "ä"}),
    ],
)
def test_every_form_of_extra_vars_is_read(item: str, expected: dict[str, Any]) -> None:
    assert read_extra_vars([item]) == expected


def test_later_extra_vars_win_over_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "v.yml").write_text("a: 1\nb: [x]\n")
    (tmp_path / "v.json").write_text('{"b": 2, "c": 3}')
    items = ["c=0", f"@{tmp_path}/v.yml", f"@{tmp_path}/v.json", "a=9"]
    assert read_extra_vars(items) == {"a": "9", "b": 2, "c": 3}


def test_an_empty_file_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "v.yml").write_text("---\n")
    assert read_extra_vars([f"@{tmp_path}/v.yml"]) == {}


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("vars.yml", "'vars.yml': must be key=value, @file"),
        ("[1, 2]", "must be key=value"),
        ("{a: ", "cannot be read"),
        ("{1: a}", "must be key=value"),
        ("{a: !vault x}", "cannot be read"),
        ("a='x", "no closing quotation"),
        ("=x", "must be key=value"),
        ("@/nowhere.yml", "@/nowhere.yml: No such file"),
    ],
)
def test_a_bad_item_is_refused_in_one_line(item: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_extra_vars([item])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_vault_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "v.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    with pytest.raises(InvalidRequest, match="encrypted; decrypt it first"):
        read_extra_vars([f"@{tmp_path}/v.yml"])


def test_secret_vars_come_from_the_environment() -> None:
    assert read_secret_vars(["password"], {"password": "x=y", "other": "z"}) == {"password": "x=y"}


def test_a_missing_secret_is_named_and_a_value_on_the_command_line_never_repeated() -> None:
    with pytest.raises(InvalidRequest, match="no environment variable password"):
        read_secret_vars(["password"], {})
    with pytest.raises(InvalidRequest) as caught:
        read_secret_vars(["password=hunter2"], {})
    assert "hunter2" not in str(caught.value)
