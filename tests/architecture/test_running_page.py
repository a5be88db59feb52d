"""docs/running.md tells what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from dispatcher.domain.outcome import FACTS
from workers import outcome, playbook_command, watch
from workers.run_dir import RunDir

PAGE = (Path(__file__).parents[2] / "docs" / "running.md").read_text()


def table(first: str) -> list[list[str]]:
    """The rows of the table whose first heading this is."""
    lines = PAGE.split(f"\n| {first} |", 1)[1].split("\n\n", 1)[0].split("\n")[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_outcomes_are_those_of_the_code() -> None:
    told = [tuple(row[:4]) for row in table("outcome")]
    assert told == [
        (str(name), str(facts.status), str(facts.exit_code), facts.v1)
        for name, facts in FACTS.items()
    ]
    assert all(row[4] for row in table("outcome"))


def test_the_files_are_those_of_a_run_directory() -> None:
    told = {row[0].strip("`").split("/")[0] for row in table("file")}
    source = Path(RunDir.create.__code__.co_filename).read_text()
    written = set(
        re.findall(r'self\.path / "([a-z.]+)"|self\._write(?:_json)?\("([a-z.]+)"', source)
    )
    paths = {name for pair in written for name in pair if name}
    trees = set(re.findall(r'= path / "([a-z.]+)"', source))
    assert told == paths | trees | {"reserve"}


def test_the_reasons_are_those_that_are_decided_about() -> None:
    told = {word for row in table("reason") for word in re.findall(r"\w+", row[0])}
    source = Path(outcome.__file__).read_text()
    known = set(re.findall(r'case "(\w+)"', source)) | {"spool"}
    assert told == known
    assert known >= watch.AT_ONCE


def test_the_mark_of_a_runs_processes_is_named() -> None:
    assert f"`{playbook_command.RUN_VARIABLE}`" in PAGE
