"""A node is upgraded while it runs playbooks: the new agent goes on with what the old one started."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text

from dispatcher import __version__
from dispatcher.db import tables as t
from dispatcher.settings import Settings
from tests.nodes import (
    ROOT,
    NodeUnderTest,
    claimed_job,
    counters,
    job_row,
    paced,
    wait_final,
    waiting_job,
)
from tests.roles import is_alive
from tests.waiting import wait_until
from workers.run_dir import RunDir
from workers.runs import note_job

PREVIOUS = "0.0.9"


def talkative(gate: Path) -> str:
    """A play that says something several times a second until ``gate`` exists, and then more."""
    return f"""
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {{msg: before}}
      register: said
      until: query("ansible.builtin.fileglob", "{gate}") | length > 0
      retries: 100000
      delay: 0.1
    - ansible.builtin.debug: {{msg: "after {{{{ item }}}}"}}
      loop: "{{{{ range(50) | list }}}}"
"""


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """This package as an older release, installed elsewhere."""
    directory = tmp_path / "previous"
    for name in ("dispatcher", "workers"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, directory / name, ignore=ignored)
    init = directory / "dispatcher" / "__init__.py"
    lowered = re.sub(
        r"\ntry:\n.*?\n\n", f'\n__version__ = "{PREVIOUS}"\n\n', init.read_text(), flags=re.S
    )
    init.write_text(lowered)
    return directory


def version_of(engine: Engine, node_id: int) -> str:
    with engine.connect() as connection:
        version: str = connection.execute(
            select(t.node.c.version).where(t.node.c.id == node_id)
        ).scalar_one()
    return version


def test_supervisors_of_the_previous_release_are_adopted_and_end_with_exact_events(
    settings: Settings, engine: Engine, previous: Path
) -> None:
    node = NodeUnderTest(settings)
    gate = node.data_dir / "gate"
    plays = [f"{play(gate)}# {n}\n" for play in (talkative, paced) for n in range(2)]
    agent = node.start("agent", package=previous)
    try:
        node_id = node.wait_registered(engine)
        assert version_of(engine, node_id) == PREVIOUS
        with engine.begin() as connection:
            jobs = [waiting_job(connection, node_id, play) for play in plays]
        node.hand_over(*jobs)
        for job_id, _ in jobs:
            wait_until(lambda job_id=job_id: len(counters(engine, job_id)) > 2, what="events")
        supervisors = {}
        for _, dispatch_id in jobs:
            record = node.run_dir(dispatch_id).read_supervisor()
            assert record is not None
            supervisors[dispatch_id] = record.pid
            assert f"PYTHONPATH={previous}" in Path(f"/proc/{record.pid}/environ").read_text()
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        # nothing of the old package is there any more, as after an upgrade in place
        shutil.move(previous, previous.with_name("gone"))
        assert all(is_alive(pid) for pid in supervisors.values())

        node.start("agent")
        node.wait_registered(engine)
        assert version_of(engine, node_id) == __version__
        wait_until(lambda: node.log().count("todo=adopt") == len(jobs), what="all are adopted")
        assert {job_row(engine, job_id).status for job_id, _ in jobs} == {"running"}
        gate.touch()
        for job_id, dispatch_id in jobs:
            row = wait_final(engine, job_id, timeout=120)
            assert (row.status, row.events_complete) == ("successful", True), row.explanation
            result = node.run_dir(dispatch_id).read_result()
            assert result is not None
            assert counters(engine, job_id) == list(range(1, result.events_total + 1))
            record = node.run_dir(dispatch_id).read_supervisor()
            assert record is not None
            assert record.pid == supervisors[dispatch_id], "it was started once"
        with engine.connect() as connection:
            starts = connection.scalar(
                text("SELECT count(*) FROM job_event WHERE event = 'playbook_on_start'")
            )
        assert starts == len(jobs)
    finally:
        node.kill()


def test_what_a_newer_release_left_ends_with_that_reason_and_without_its_secrets(
    settings: Settings, engine: Engine
) -> None:
    node = NodeUnderTest(settings)
    process = node.start("agent")
    try:
        node_id = node.wait_registered(engine)
        process.kill()
        process.wait()
        with engine.begin() as connection:
            job_id, dispatch_id = claimed_job(connection, node_id)
        directory = RunDir.create(node.data_dir, str(dispatch_id))
        note_job(directory, job_id)
        assert directory.take_start()
        for name in ("job.json", "result.json"):
            (directory.path / name).write_text('{"format": 2, "secret": "of another kind"}')
        node.start("agent")
        row = wait_final(engine, job_id)
        assert (row.status, row.outcome, row.events_complete) == ("error", "internal", False)
        assert "format 2, of a newer version of this package; this version reads format 1" in (
            row.explanation
        )
        assert not (directory.path / "job.json").exists()
    finally:
        node.kill()
