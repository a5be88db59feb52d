"""docs/cli.md lists every command with every option, and every exit code, as the code has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from dispatcher.cli import exit_codes
from dispatcher.cli.main import COMMANDS, make_app
from dispatcher.domain.outcome import FACTS

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def commands(command: Any = None, path: str = "dispatcher") -> Iterator[tuple[str, Any]]:
    """Every command that does something: (words, command)."""
    command = command or typer.main.get_command(make_app())
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from commands(child, f"{path} {name}")


def options(command: Any) -> set[str]:
    return {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("-") and name not in ("--help", "-h")
    }


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", PAGE, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_page_has_a_section_for_each_command_and_no_other() -> None:
    documented = {name for name in sections() if name.startswith("dispatcher ")}
    assert documented == {path for path, _ in commands()}


def test_each_command_is_found_by_its_first_word() -> None:
    assert {path.split()[1] for path, _ in commands()} == set(COMMANDS)
    for word in COMMANDS:
        assert word in typer.main.get_command(make_app([word])).commands  # type: ignore[attr-defined]


def test_each_section_names_exactly_the_options_of_its_command() -> None:
    for path, command in commands():
        text = sections()[path]
        named = set(re.findall(r"`(-{1,2}[a-zA-Z][a-z0-9-]*)`", text))
        assert named == options(command), path


def test_every_command_and_option_has_a_help_text() -> None:
    for path, command in commands():
        assert command.help, path
        for parameter in command.params:
            assert getattr(parameter, "help", None), (path, parameter.name)


def test_the_exit_codes_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", sections()["Exit codes"], re.M)
    outcomes = {
        word: int(code) for code, words in rows for word in re.findall(r"`([a-z_]+)`", words)
    }
    outcomes = {word: code for word, code in outcomes.items() if word in set(FACTS)}
    assert outcomes == {str(outcome): facts.exit_code for outcome, facts in FACTS.items()}
    own = {
        exit_codes.REFUSED,
        exit_codes.SERVER,
        exit_codes.FAULT,
        exit_codes.DETACHED,
        exit_codes.OUTPUT_CLOSED,
    }
    assert own == {int(code) for code, _ in rows} - set(outcomes.values())
