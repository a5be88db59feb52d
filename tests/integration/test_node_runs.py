"""One worker node with its real processes: from a waiting row to a final one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text, update

from dispatcher.actions.cancel import cancel_job
from dispatcher.broker.messages import Dispatch
from dispatcher.db import tables as t
from dispatcher.db.engine import make_engine
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.secrets import Cipher
from tests.databases import Databases
from tests.factories import make_job
from tests.nodes import (
    HELLO,
    NodeUnderTest,
    agent_alone,
    counters,
    job_row,
    paced,
    started_job,
    wait_final,
    waiting_job,
)
from tests.waiting import wait_until
from workers import leftovers
from workers.handover import hand_over, line
from workers.spool import SpoolReader


@pytest.fixture(scope="module")
def node(
    databases: Databases, migrated_template: str, valkey: EmbeddedValkey, session_dir: Path
) -> Iterator[NodeUnderTest]:
    yield from agent_alone("node_runs", databases, migrated_template, valkey, session_dir)


@pytest.fixture
def engine(node: NodeUnderTest) -> Iterator[Engine]:
    made = make_engine(node.settings, application_name="test", pool_size=5)
    yield made
    made.dispose()


def test_a_waiting_job_is_run_and_everything_about_it_is_stored(
    node: NodeUnderTest, engine: Engine
) -> None:
    node_id = node.wait_registered(engine)
    with engine.begin() as connection:
        job_id, dispatch_id = waiting_job(connection, node_id)
        workflow = make_job(connection, kind="workflow", status="running")
        connection.execute(
            t.workflow_node.insert().values(workflow_job_id=workflow, identifier="a", job_id=job_id)
        )
    node.hand_over((job_id, dispatch_id))
    row = wait_final(engine, job_id)
    assert (row.status, row.outcome, row.events_complete) == ("successful", "successful", True)

    run = node.data_dir / "runs" / str(dispatch_id)
    spooled = SpoolReader(run / "spool").read(0, max_events=10_000)
    assert counters(engine, job_id) == list(range(1, len(spooled.lines) + 1))
    with engine.connect() as connection:
        stored = connection.execute(
            select(t.job_event.c.uuid, t.job_event.c.stdout)
            .where(t.job_event.c.job_id == job_id)
            .order_by(t.job_event.c.counter)
        ).all()
        assert [e.uuid for e in stored] == [line.split(b"\t")[1].decode() for line in spooled.lines]
        assert any("hello" in e.stdout for e in stored)
        summary = connection.execute(
            select(t.job_host_summary).where(t.job_host_summary.c.job_id == job_id)
        ).one()
        assert (summary.job_id, summary.host_name, summary.ok) == (job_id, "localhost", 1)
        result = connection.execute(
            select(t.job_result).where(t.job_result.c.job_id == job_id)
        ).one()
        assert (result.events_total, result.playbook_outcome) == (len(stored), None)
        assert result.evidence["rc"] == 0
        assert connection.scalar(select(t.workflow_touch.c.workflow_job_id)) == workflow
    assert not (run / "project").exists(), "only spool and result stay"


def test_a_secret_reaches_the_playbook_and_nothing_of_it_stays_on_disk(
    node: NodeUnderTest, engine: Engine
) -> None:
    node_id = node.wait_registered(engine)
    secret = "correct horse battery staple"
    cipher = Cipher(node.data_dir / "cluster.key")
    play = HELLO.replace("{msg: hello}", '{msg: "{{ word | length }} {{ word }}"}')
    with engine.begin() as connection:
        job_id, dispatch_id = waiting_job(
            connection, node_id, play, inputs={"secret_vars": cipher.encrypt({"word": secret})}
        )
    node.hand_over((job_id, dispatch_id))
    assert wait_final(engine, job_id).status == "successful"
    with engine.connect() as connection:
        output = "".join(
            connection.scalars(select(t.job_event.c.stdout).where(t.job_event.c.job_id == job_id))
        )
    assert str(len(secret)) in output
    assert secret not in output
    files = [p for p in node.data_dir.rglob("*") if p.is_file()]
    assert [p for p in files if secret.encode() in p.read_bytes()] == []
    assert secret not in node.log()


def test_a_job_whose_message_was_lost_is_found_by_the_nodes_own_look(
    node: NodeUnderTest, engine: Engine
) -> None:
    node_id = node.wait_registered(engine)
    with engine.begin() as connection:
        job_id, _ = waiting_job(connection, node_id)
    assert wait_final(engine, job_id).status == "successful"


def test_a_canceled_job_ends_canceled_with_no_process_left(
    node: NodeUnderTest, engine: Engine
) -> None:
    node_id = node.wait_registered(engine)
    with engine.begin() as connection:
        job_id, dispatch_id = waiting_job(connection, node_id, paced(node.data_dir / "never"))
    node.hand_over((job_id, dispatch_id))
    wait_until(lambda: counters(engine, job_id), what="events while it runs")
    with engine.begin() as connection:
        owed = cancel_job(connection, job_id).owed
    assert owed.cancels == (Dispatch(job_id, dispatch_id, node.name),)
    assert hand_over(node.data_dir, line(cancel=[(job_id, dispatch_id)]))
    row = wait_final(engine, job_id)
    assert (row.status, row.outcome, row.events_complete) == ("canceled", "canceled", True)
    assert leftovers.find(str(dispatch_id)) == []


def test_a_job_that_was_canceled_before_it_could_start_is_never_started(
    node: NodeUnderTest, engine: Engine
) -> None:
    """The flag is read with the claim, and once more when the directory is filled."""
    node_id = node.wait_registered(engine)
    with engine.begin() as connection:
        job_id, dispatch_id = waiting_job(connection, node_id, cancel_requested=True)
    node.hand_over((job_id, dispatch_id))
    row = wait_final(engine, job_id)
    assert (row.status, row.explanation) == (
        "canceled",
        "canceled before the playbook was started",
    )
    assert counters(engine, job_id) == []


def test_a_job_whose_content_is_damaged_ends_in_error_and_others_go_on(
    node: NodeUnderTest, engine: Engine
) -> None:
    node_id = node.wait_registered(engine)
    with engine.begin() as connection:
        broken = waiting_job(connection, node_id, HELLO + "# another digest\n")
        digest = select(t.job.c.bundle_digest).where(t.job.c.id == broken[0]).scalar_subquery()
        connection.execute(
            t.content_chunk.update()
            .where(t.content_chunk.c.digest == digest)
            .values(bytes=b"no archive")
        )
        unreadable = waiting_job(connection, node_id, inputs={"secret_vars": b"no token"})
        good = waiting_job(connection, node_id, HELLO + "# and another\n")
    node.hand_over(broken, unreadable, good)
    row = wait_final(engine, broken[0])
    assert (row.status, row.outcome) == ("error", "project")
    assert "content cannot be used" in row.explanation
    row = wait_final(engine, unreadable[0])
    assert (row.status, row.outcome) == ("error", "credentials")
    assert wait_final(engine, good[0]).status == "successful"


def test_a_killed_supervisor_ends_its_job_in_error_with_what_was_spooled(
    node: NodeUnderTest, engine: Engine
) -> None:
    job_id, dispatch_id = started_job(node, engine, paced(node.data_dir / "never"))
    supervisor = node.run_dir(dispatch_id).read_supervisor()
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    row = wait_final(engine, job_id)
    assert (row.status, row.outcome, row.events_complete) == ("error", "internal", True)
    assert "ended without a result" in row.explanation
    assert leftovers.find(str(dispatch_id)) == []
    stored = counters(engine, job_id)
    assert stored == list(range(1, len(stored) + 1))
    with engine.connect() as connection:
        assert connection.scalar(
            select(t.job_result.c.events_total).where(t.job_result.c.job_id == job_id)
        ) == len(stored)
    assert not node.run_dir(dispatch_id).project.exists(), "its content and secrets are wiped"


def test_a_job_that_was_ended_elsewhere_is_stopped_here_and_its_directory_kept(
    node: NodeUnderTest, engine: Engine
) -> None:
    job_id, dispatch_id = started_job(node, engine, paced(node.data_dir / "never"))
    with engine.begin() as connection:
        connection.execute(
            update(t.job)
            .where(t.job.c.id == job_id)
            .values(status="error", outcome="node_lost", finished=text("dispatcher_now()"))
        )
    stored = counters(engine, job_id)
    wait_until(lambda: not node.run_dir(dispatch_id).project.exists())
    assert leftovers.find(str(dispatch_id)) == []
    assert node.run_dir(dispatch_id).spool.exists()
    assert counters(engine, job_id) == stored, "nothing is stored behind a final status"


def test_a_commit_that_a_fail_over_lost_is_made_again_from_the_kept_directory(
    node: NodeUnderTest, engine: Engine
) -> None:
    node_id = node.wait_registered(engine)
    with engine.begin() as connection:
        job_id, dispatch_id = waiting_job(connection, node_id)
    node.hand_over((job_id, dispatch_id))
    wait_final(engine, job_id)
    stored = counters(engine, job_id)
    with engine.begin() as connection:  # what a promoted standby without the last commits shows
        for table in (t.job_event, t.job_host_summary, t.job_result):
            connection.execute(table.delete().where(table.c.job_id == job_id))
        connection.execute(
            update(t.job_progress)
            .where(t.job_progress.c.job_id == job_id)
            .values(stored=0, spool_offset=0)
        )
        connection.execute(
            update(t.job)
            .where(t.job.c.id == job_id)
            .values(status="running", finished=None, outcome=None, events_complete=False)
        )
    assert wait_final(engine, job_id).status == "successful"
    assert counters(engine, job_id) == stored


def test_a_node_that_is_not_fit_says_why_returns_its_jobs_and_comes_back_by_itself(
    node: NodeUnderTest, engine: Engine
) -> None:
    def reason() -> str:
        with engine.connect() as connection:
            return connection.scalar(select(t.node.c.not_accepting_reason)) or ""

    node_id = node.wait_registered(engine)
    os.chmod(node.data_dir, 0o777)
    assert "can be written by others" in wait_until(reason)
    with engine.begin() as connection:
        job_id, _ = waiting_job(connection, node_id)
    wait_until(lambda: job_row(engine, job_id).status == "pending")
    assert "written by others" in job_row(engine, job_id).pending_reason["data"]["why"]
    os.chmod(node.data_dir, 0o700)
    wait_until(lambda: reason() == "")
    with engine.begin() as connection:
        job_id, _ = waiting_job(connection, node_id)
    assert wait_final(engine, job_id).status == "successful"
