"""A node whose processes are killed, or whose rows and directories do not go together."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Engine, func, select, update

from dispatcher.db import tables as t
from dispatcher.db.job_moves import cancel
from dispatcher.settings import Settings
from tests.factories import make_job
from tests.nodes import (
    HELLO,
    NodeUnderTest,
    claimed_job,
    counters,
    job_row,
    paced,
    started_job,
    wait_final,
    waiting_job,
)
from tests.waiting import wait_until
from workers import leftovers
from workers.run_dir import RunDir
from workers.runs import note_job


@pytest.fixture
def node(settings: Settings) -> Iterator[NodeUnderTest]:
    made = NodeUnderTest(settings)
    yield made
    made.kill()


def test_a_killed_agent_is_started_again_and_takes_its_playbook_over(
    node: NodeUnderTest, engine: Engine
) -> None:
    node.start("worker")
    gate = node.data_dir / "gate"
    job_id, dispatch_id = started_job(node, engine, paced(gate, tasks=30))
    agent = node.agent_pid
    supervisor = node.run_dir(dispatch_id).read_supervisor()
    os.kill(agent, signal.SIGKILL)
    wait_until(lambda: node.agent_pid not in (0, agent), timeout=60)
    gate.touch()
    row = wait_final(engine, job_id, timeout=60)
    assert (row.status, row.events_complete) == ("successful", True)
    assert node.run_dir(dispatch_id).read_supervisor() == supervisor, "the same run went on"
    result = node.run_dir(dispatch_id).read_result()
    assert result is not None
    assert counters(engine, job_id) == list(range(1, result.events_total + 1))
    with engine.connect() as connection:
        assert connection.scalar(select(t.node_lease.c.epoch)) == 2


def test_a_playbook_that_ended_while_no_agent_was_there_is_finished_by_the_next_one(
    node: NodeUnderTest, engine: Engine
) -> None:
    process = node.start("agent")
    gate = node.data_dir / "gate"
    job_id, dispatch_id = started_job(node, engine, paced(gate, tasks=5))
    process.kill()
    process.wait()
    gate.touch()
    wait_until(lambda: node.run_dir(dispatch_id).read_result(), what="a result")
    assert job_row(engine, job_id).status == "running"
    node.start("agent")
    row = wait_final(engine, job_id)
    assert (row.status, row.events_complete) == ("successful", True)
    result = node.run_dir(dispatch_id).read_result()
    assert result is not None
    assert counters(engine, job_id) == list(range(1, result.events_total + 1))


def test_a_refused_renewal_kills_the_playbooks_and_the_agent_comes_back_under_a_new_epoch(
    node: NodeUnderTest, engine: Engine
) -> None:
    node.start("worker")
    job_id, dispatch_id = started_job(node, engine, paced(node.data_dir / "never"))
    with engine.begin() as connection:
        connection.execute(update(t.node_lease).values(state="lost"))
    row = wait_final(engine, job_id)
    assert (row.status, row.outcome) == ("error", "fenced")
    assert leftovers.find(str(dispatch_id)) == []

    def lease() -> tuple[int, str]:
        with engine.connect() as connection:
            row = connection.execute(select(t.node_lease.c.epoch, t.node_lease.c.state)).one()
        return row.epoch, row.state

    wait_until(lambda: lease() == (2, "alive"))
    assert "lease was refused" in node.log()


STAY = """
import os, signal, sys
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
pid = os.getpid()
while b"workers.preload" not in open(f"/proc/{parent(pid)}/cmdline", "rb").read():
    pid = parent(pid)
os.kill(pid, signal.SIGSTOP)
open(sys.argv[1], "w").close()
"""


def test_a_refused_renewal_kills_at_once_what_is_being_stopped_with_a_grace(
    settings: Settings, engine: Engine
) -> None:
    """ansible-playbook has stopped itself, so that only the end of the ladder would end it."""
    node = NodeUnderTest(settings, stop_grace=20.0, node_lost_margin=35.0, node_lost_after=95.0)
    node.start("worker")
    try:
        node_id = node.wait_registered(engine)
        play = f"""
- hosts: all
  gather_facts: false
  tasks:
    - debug: {{msg: before}}
    - command: {sys.executable} {{{{ playbook_dir }}}}/stay.py {node.data_dir}/stays
"""
        with engine.begin() as connection:
            job_id, dispatch_id = waiting_job(
                connection, node_id, {"site.yml": play, "stay.py": STAY}
            )
        node.hand_over((job_id, dispatch_id))
        wait_until((node.data_dir / "stays").exists, what="a stopped playbook", timeout=60)
        with engine.begin() as connection:
            assert cancel(connection, job_id)
        wait_until(lambda: "stop requested" in node.log())
        with engine.begin() as connection:
            connection.execute(update(t.node_lease).values(state="lost"))
        assert wait_final(engine, job_id).status == "canceled"
        assert leftovers.find(str(dispatch_id)) == []
        took = said_at(node, "supervisor killed") - said_at(node, "lease was refused")
        assert took.total_seconds() < 10, "far less than the grace of a cancel"
    finally:
        node.kill()


def said_at(node: NodeUnderTest, words: str) -> datetime:
    (line,) = [line for line in node.log().splitlines() if words in line]
    return datetime.fromisoformat(line.split()[0])


def test_rows_and_directories_that_do_not_go_together_are_settled_at_the_start(
    node: NodeUnderTest, engine: Engine
) -> None:
    process = node.start("agent")
    node_id = node.wait_registered(engine)
    process.kill()
    process.wait()
    with engine.begin() as connection:
        # claimed before this boot, and nothing of it is here
        lost = make_job(connection, status="running", node_id=node_id)
        connection.execute(
            update(t.job).where(t.job.c.id == lost).values(started=func.to_timestamp(0))
        )
        # claimed; the agent died before it had filled the directory
        unfilled, unfilled_dispatch = claimed_job(connection, node_id)
        # its supervisor died with the machine
        dead, dead_dispatch = claimed_job(connection, node_id, HELLO + "# dead\n")
        # its job was given to another node
        gone, gone_dispatch = waiting_job(connection, node_id, HELLO + "# gone\n")
        connection.execute(
            update(t.job).where(t.job.c.id == gone).values(dispatch_id=uuid4(), queued_on_node=True)
        )
        directories = [
            (unfilled, unfilled_dispatch),
            (dead, dead_dispatch),
            (gone, gone_dispatch),
        ]
    for job_id, dispatch_id in directories:
        note_job(RunDir.create(node.data_dir, str(dispatch_id)), job_id)
    assert node.run_dir(dead_dispatch).take_start()
    strange = RunDir.create(node.data_dir, str(uuid4()))

    node.start("agent")
    row = wait_final(engine, lost)
    assert (row.outcome, row.events_complete) == ("node_lost", False)
    assert wait_final(engine, unfilled).status == "successful"
    row = wait_final(engine, dead)
    assert (row.status, row.outcome) == ("error", "internal")
    wait_until(lambda: not Path(strange.path).exists())
    wait_until(lambda: not node.run_dir(gone_dispatch).path.exists())
