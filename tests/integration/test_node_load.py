"""A node under more than it has room for, and what reaches it over the broker."""

from __future__ import annotations

from datetime import datetime

import requests
from sqlalchemy import Engine, select, text

from dispatcher import health
from dispatcher.broker.celery_app import make_app
from dispatcher.broker.messages import START_JOBS, Dispatch, Owed, node_queue
from dispatcher.broker.publish import Publisher
from dispatcher.db import tables as t
from dispatcher.settings import Settings
from tests.nodes import (
    NodeUnderTest,
    job_row,
    paced,
    wait_final,
    wait_status,
    waiting_job,
)
from tests.waiting import wait_until
from workers.run_dir import RunDir


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
        port = node.settings.worker_metrics_port
        wait_until(lambda: requests.get(f"http://127.0.0.1:{port}/readyz", timeout=5).ok)
        said = health.read(node.data_dir, "worker")
        assert said is not None
        assert (said.ready, said.pid) == (True, node.agent_pid)
        assert node.stop() == 0
        assert health.read(node.data_dir, "worker") is None
        with engine.connect() as connection:
            assert connection.scalar(select(t.node_lease.c.state)) == "left"
    finally:
        node.kill()


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
        for (_, dispatch_id), after in zip((first, second), rows[1:], strict=True):
            result = RunDir(node.data_dir / "runs" / str(dispatch_id)).read_result()
            assert result is not None
            assert datetime.fromisoformat(result.finished) <= after.started
    finally:
        node.kill()


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
