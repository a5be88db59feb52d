"""What is said about an inventory that Ansible cannot read."""

from __future__ import annotations

from pathlib import Path

from workers.inventory_fault import explain


def _output(path: Path, plugin: str, words: str) -> str:
    return (
        f"\x1b[1;35m[WARNING]: Failed to parse inventory with '{plugin}' plugin: {words}\x1b[0m\r\n"
        f"[ERROR]: Completely failed to parse inventory source {path}\r\n"
    )


def test_the_line_of_an_ini_file_comes_from_our_own_parser(tmp_path: Path) -> None:
    path = tmp_path / "b.ini"
    path.write_text("[web]\na\n[web:nonsense]\n")
    assert explain(_output(path, "ini", "bad"), tmp_path).startswith("b.ini, line 3: ")


def test_a_scripts_own_words_are_told(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("#!/bin/sh\nexit 3\n")
    path.chmod(0o755)
    words = explain(_output(path, "script", "non-zero exit code 3"), tmp_path)
    assert words == "s: non-zero exit code 3"


def test_without_a_source_the_last_error_is_told(tmp_path: Path) -> None:
    output = f"[ERROR]: first\n[ERROR]: {tmp_path}/x is odd\n"
    assert explain(output, tmp_path) == "x is odd"
    assert explain("", tmp_path) == "ansible-inventory failed"
