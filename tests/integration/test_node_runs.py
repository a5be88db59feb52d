"""One worker node with its real processes: from a waiting row to a final one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, select

from dispatcher.db import tables as t
from dispatcher.secrets import Cipher
from dispatcher.settings import Settings
from tests.factories import make_job
from tests.nodes import (
    HELLO,
    NodeUnderTest,
    counters,
    wait_final,
    waiting_job,
)
from workers.spool import SpoolReader


@pytest.fixture
def node(settings: Settings) -> Iterator[NodeUnderTest]:
    made = NodeUnderTest(settings)
    made.start()
    yield made
    print(made.log())
    made.kill()


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
        summary = connection.execute(select(t.job_host_summary)).one()
        assert (summary.job_id, summary.host_name, summary.ok) == (job_id, "localhost", 1)
        result = connection.execute(select(t.job_result)).one()
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
