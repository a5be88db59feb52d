"""How a worker starts, is refused, and is stopped."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text

from dispatcher import health
from dispatcher import settings as settings_module
from dispatcher.broker.messages import Manager
from dispatcher.db import tables as t
from dispatcher.db.change import raise_counter
from dispatcher.settings import Settings
from tests.factories import make_job, make_node
from tests.nodes import NodeUnderTest, counters, job_row, paced, started_job, wait_final
from tests.passes import runner
from tests.waiting import wait_until
from workers import leftovers
from workers.run_dir import RunDir


@pytest.fixture
def nodes() -> Iterator[list[NodeUnderTest]]:
    made: list[NodeUnderTest] = []
    yield made
    for node in made:
        node.kill()


def test_a_second_agent_on_one_data_directory_is_refused(
    settings: Settings, engine: Engine, nodes: list[NodeUnderTest]
) -> None:
    node, other = NodeUnderTest(settings), NodeUnderTest(settings, "n2")
    nodes += [node, other]
    node.start("agent")
    node.wait_registered(engine)
    assert other.start("worker").wait(60) == 2
    assert "another agent" in other.log()
    assert str(node.process.pid if node.process else "") in other.log()
    with engine.connect() as connection:
        assert list(connection.scalars(select(t.node.c.name))) == ["n1"]


def test_a_name_that_another_node_holds_is_refused_and_the_worker_stops(
    settings: Settings, engine: Engine, nodes: list[NodeUnderTest]
) -> None:
    with engine.begin() as connection:
        make_node(connection, "n1")
    node = NodeUnderTest(settings)
    nodes.append(node)
    assert node.start("worker").wait(60) == 2
    assert "'n1' is held by another node" in node.log()


def test_settings_under_which_fencing_would_not_hold_are_refused(
    settings: Settings, nodes: list[NodeUnderTest]
) -> None:
    node = NodeUnderTest(settings, node_lost_margin=5.0)
    nodes.append(node)
    assert node.start("worker").wait(60) == 2
    assert "DISPATCHER_NODE_LOST_MARGIN" in node.log()


def test_a_metrics_port_that_is_taken_is_refused_and_the_worker_stops(
    settings: Settings, nodes: list[NodeUnderTest]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node = NodeUnderTest(settings, worker_metrics_port=port)
        nodes.append(node)
        assert node.start("worker").wait(60) == 2
    (line,) = node.log().splitlines()
    assert f"DISPATCHER_WORKER_METRICS_PORT: 127.0.0.1:{port}: " in line


def running_job(node: NodeUnderTest, engine: Engine, gate: Path) -> tuple[int, RunDir]:
    node.start("worker")
    job_id, dispatch_id = started_job(node, engine, paced(gate, tasks=5))
    return job_id, node.run_dir(dispatch_id)


def lease_state(engine: Engine) -> tuple[str, bool]:
    with engine.connect() as connection:
        row = connection.execute(
            select(t.node_lease.c.state, t.node.c.accepting).join_from(t.node_lease, t.node)
        ).one()
    return row.state, row.accepting


def test_the_policy_cancel_stops_every_run_and_stores_all_of_it(
    settings: Settings, engine: Engine, nodes: list[NodeUnderTest]
) -> None:
    node = NodeUnderTest(settings, stop_policy="cancel")
    nodes.append(node)
    job_id, run = running_job(node, engine, node.data_dir / "never")
    assert node.stop(timeout=10) == 0
    row = job_row(engine, job_id)
    assert (row.status, row.outcome, row.events_complete) == ("canceled", "canceled", True)
    assert leftovers.find(run.dispatch_id) == []
    result = run.read_result()
    assert result is not None
    assert counters(engine, job_id) == list(range(1, result.events_total + 1))
    assert lease_state(engine) == ("left", False)
    assert node.pids("agent") == node.pids("celery") == []


def test_the_policy_detach_leaves_playbooks_running_for_the_next_worker(
    settings: Settings, engine: Engine, nodes: list[NodeUnderTest]
) -> None:
    node = NodeUnderTest(settings, stop_policy="detach")
    nodes.append(node)
    gate = node.data_dir / "gate"
    job_id, run = running_job(node, engine, gate)
    assert node.stop() == 0
    assert run.is_alive()
    assert job_row(engine, job_id).status == "running"
    assert lease_state(engine) == ("alive", False)
    node.start("worker")
    gate.touch()
    row = wait_final(engine, job_id, timeout=60)
    assert (row.status, row.events_complete) == ("successful", True)
    assert lease_state(engine) == ("alive", True)


def test_the_policy_drain_waits_for_what_runs_and_a_second_signal_lets_go(
    settings: Settings, engine: Engine, nodes: list[NodeUnderTest]
) -> None:
    node = NodeUnderTest(settings)
    nodes.append(node)
    gate = node.data_dir / "gate"
    job_id, run = running_job(node, engine, gate)
    assert node.process is not None
    node.process.send_signal(signal.SIGTERM)
    wait_until(lambda: lease_state(engine) == ("alive", False), what="no more jobs are taken")
    assert node.process.poll() is None
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(15) == 0
    assert run.is_alive()
    node.start("worker")
    wait_until(lambda: lease_state(engine) == ("alive", True))
    node.process.send_signal(signal.SIGTERM)
    gate.touch()
    assert node.process.wait(60) == 0
    assert job_row(engine, job_id).status == "successful"
    assert lease_state(engine) == ("left", False)


def test_an_agent_whose_parent_is_killed_lets_go_and_a_new_worker_takes_over(
    settings: Settings, engine: Engine, nodes: list[NodeUnderTest]
) -> None:
    node = NodeUnderTest(settings)
    nodes.append(node)
    gate = node.data_dir / "gate"
    job_id, run = running_job(node, engine, gate)
    assert node.process is not None
    agent = node.agent_pid
    node.process.kill()
    node.process.wait()
    node.start("worker")
    wait_until(lambda: node.agent_pid not in (0, agent), timeout=60)
    gate.touch()
    assert wait_final(engine, job_id).status == "successful"
    assert run.read_result() is not None
    wait_until(lambda: len(node.pids("celery")) == 1, what="one Celery worker")


def test_a_schema_that_is_missing_stops_the_worker(
    settings: Settings, empty_database_url: str, nodes: list[NodeUnderTest]
) -> None:
    given = settings.model_dump(exclude_unset=True) | {"database_url": empty_database_url}
    node = NodeUnderTest(settings_module.load(**given))
    nodes.append(node)
    assert node.start("worker").wait(60) == 2
    assert "dispatcher migrate" in node.log()


def test_what_is_pending_hears_of_a_node_that_has_left(
    settings: Settings, engine: Engine, nodes: list[NodeUnderTest]
) -> None:
    node = NodeUnderTest(settings)
    nodes.append(node)
    gate = node.data_dir / "gate"
    running_job(node, engine, gate)
    assert node.process is not None
    node.process.send_signal(signal.SIGTERM)
    wait_until(lambda: lease_state(engine) == ("alive", False), what="no more jobs are taken")
    with engine.begin() as connection:
        pending = make_job(connection)
        raise_counter(connection)
    with runner(settings) as passes:
        # takes the wake-ups up to here along: the next one is the leaving node's
        assert passes.trigger(Manager.TASK) == "complete"
        before = job_row(engine, pending).pending_reason
        gate.touch()
        assert node.process.wait(60) == 0
        assert lease_state(engine) == ("left", False)
        assert passes.trigger(Manager.TASK) == "complete"
    assert job_row(engine, pending).pending_reason != before


def test_a_lease_that_cannot_be_given_up_does_not_spoil_the_end(
    settings: Settings, engine: Engine, nodes: list[NodeUnderTest]
) -> None:
    node = NodeUnderTest(settings)
    nodes.append(node)
    node.start("agent")
    node.wait_registered(engine)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE node_lease ADD CHECK (state <> 'left') NOT VALID"))
    assert node.stop() == 0
    assert "left to lapse" in node.log()
    assert "the agent ends" in node.log()
    assert health.read(node.data_dir, "worker") is None
    assert "Traceback" not in node.log()
