"""One worker node with its real processes: from a waiting row to a final one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, select, text

from dispatcher.actions.cancel import cancel_job
from dispatcher.broker.celery_app import make_app
from dispatcher.broker.messages import START_JOBS, Dispatch, Owed, node_queue
from dispatcher.broker.publish import Publisher
from dispatcher.db import tables as t
from dispatcher.secrets import Cipher
from dispatcher.settings import Settings
from tests.factories import make_job
from tests.nodes import (
    HELLO,
    NodeUnderTest,
    counters,
    job_row,
    paced,
    wait_final,
    wait_status,
    waiting_job,
)
from tests.waiting import wait_until
from workers import leftovers
from workers.handover import hand_over, line
from workers.spool import SpoolReader


@pytest.fixture
def node(settings: Settings) -> Iterator[NodeUnderTest]:
    """An agent alone; jobs are handed over as its Celery worker does it."""
    made = NodeUnderTest(settings)
    made.start("agent")
    yield made
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


def test_messages_reach_the_node_and_a_duplicate_or_an_unknown_one_changes_nothing(
    settings: Settings, engine: Engine
) -> None:
    node = NodeUnderTest(settings)
    node.start("worker")
    try:
        node_id = node.wait_registered(engine)
        publisher = Publisher(make_app(settings, profile="publisher"))
        with engine.begin() as connection:
            job_id, dispatch_id = waiting_job(connection, node_id)
        start = Owed(starts=(Dispatch(job_id, dispatch_id, node.name),))
        assert publisher.publish(start)
        first = wait_final(engine, job_id)
        assert first.status == "successful"

        duplicates = 'dispatcher_claims_total{result="duplicate"}'
        before = node.metric(duplicates)  # its own look may have been faster than the message
        app = make_app(settings, profile="publisher")
        app.send_task(START_JOBS, args=({"v": 99},), queue=node_queue(node.name), retry=False)
        assert publisher.publish(start)
        wait_until(lambda: node.metric(duplicates) == before + 1)
        wait_until(
            lambda: node.metric('dispatcher_messages_ignored_total{task="workers.start_jobs"}') == 1
        )
        assert job_row(engine, job_id) == first
        assert node.metric('dispatcher_claims_total{result="claimed"}') == 1
        assert node.stop() == 0
        with engine.connect() as connection:
            assert connection.scalar(select(t.node_lease.c.state)) == "left"
    finally:
        node.kill()


def test_a_job_whose_message_was_lost_is_found_by_the_nodes_own_look(
    node: NodeUnderTest, engine: Engine
) -> None:
    node_id = node.wait_registered(engine)
    with engine.begin() as connection:
        job_id, _ = waiting_job(connection, node_id)
    assert wait_final(engine, job_id).status == "successful"


def test_jobs_beyond_the_nodes_room_wait_there_and_are_taken_in_order(
    settings: Settings, engine: Engine
) -> None:
    node = NodeUnderTest(settings, node_max_jobs=1)
    gate = node.data_dir / "gate"
    node.start("agent")
    try:
        node_id = node.wait_registered(engine)
        with engine.begin() as connection:
            first = waiting_job(connection, node_id, paced(gate, tasks=1))
        node.hand_over(first)
        wait_status(engine, first[0], "running")
        with engine.begin() as connection:
            second, third = (waiting_job(connection, node_id) for _ in range(2))
        node.hand_over(second, third)
        wait_until(lambda: job_row(engine, third[0]).queued_on_node)
        assert job_row(engine, second[0]).queued_on_node
        gate.touch()
        rows = [wait_final(engine, job_id) for job_id, _ in (first, second, third)]
        assert [row.status for row in rows] == ["successful"] * 3
        assert rows[0].finished <= rows[1].started
        assert rows[1].finished <= rows[2].started
    finally:
        node.kill()


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
        connection.execute(t.content_chunk.update().values(bytes=b"no archive"))
        unreadable = waiting_job(connection, node_id, inputs={"secret_vars": b"no token"})
        good = waiting_job(connection, node_id, HELLO + "# and another\n")
    node.hand_over(broken, unreadable, good)
    row = wait_final(engine, broken[0])
    assert (row.status, row.outcome) == ("error", "project")
    assert "damaged" in row.explanation
    row = wait_final(engine, unreadable[0])
    assert (row.status, row.outcome) == ("error", "credentials")
    assert wait_final(engine, good[0]).status == "successful"


def test_ten_running_jobs_need_four_database_connections_at_most(
    settings: Settings, engine: Engine
) -> None:
    node = NodeUnderTest(settings)
    gate = node.data_dir / "gate"
    node.start("worker")
    try:
        node_id = node.wait_registered(engine)
        with engine.begin() as connection:
            jobs = [waiting_job(connection, node_id, paced(gate, tasks=i)) for i in range(10)]
        node.hand_over(*jobs)
        count = text(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'dispatcher-node%'"
        )
        most = 0

        def all_running() -> bool:
            nonlocal most
            with engine.connect() as connection:
                most = max(most, connection.scalar(count) or 0)
                running = connection.scalar(
                    text("SELECT count(DISTINCT job_id) FROM job_event WHERE event LIKE '%ok'")
                )
            return running == 10

        wait_until(all_running, timeout=60)
        gate.touch()
        for job_id, _ in jobs:
            assert wait_final(engine, job_id, timeout=60).status == "successful"
            all_running()
        assert 0 < most <= 4
    finally:
        node.kill()
