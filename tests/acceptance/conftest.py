"""The whole stack, started once for all tests that do not break it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dispatcher.client.client import Client
from dispatcher.client.pack import Bundle
from tests.stack import RunningStack, running_stack


@pytest.fixture(scope="session")
def stack(session_dir: Path) -> Iterator[RunningStack]:
    with running_stack(session_dir / "stack") as running:
        yield running


@pytest.fixture
def client(stack: RunningStack) -> Iterator[Client]:
    with stack.client() as made:
        yield made


@pytest.fixture(scope="session")
def play(stack: RunningStack, session_dir: Path) -> Callable[[str], Bundle]:
    """A bundle whose ``site.yml`` runs these tasks on all hosts; packed once for each text."""
    made: dict[str, Bundle] = {}

    def bundle(tasks: str) -> Bundle:
        if tasks not in made:
            made[tasks] = stack.pack(session_dir / f"play{len(made)}", {"site.yml": site(tasks)})
        return made[tasks]

    return bundle


def site(tasks: str) -> str:
    """A play over all hosts with these tasks (YAML list items, indented by the caller's own)."""
    lines = "\n".join("    " + line for line in tasks.strip("\n").splitlines())
    return f"- hosts: all\n  gather_facts: false\n  tasks:\n{lines}\n"
