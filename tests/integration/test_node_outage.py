"""A node whose database, broker or machine is in trouble, and is well again."""

from __future__ import annotations

from sqlalchemy import Engine, select, text

from dispatcher import settings as settings_module
from dispatcher.db import tables as t
from dispatcher.settings import Settings
from tests.nodes import NodeUnderTest, counters, job_row, paced, wait_final, waiting_job
from tests.tcp_proxy import in_front_of
from tests.waiting import wait_until
from workers import leftovers
from workers.spool import SpoolReader


def through(settings: Settings, url: str) -> Settings:
    return settings_module.load(**(settings.model_dump(exclude_unset=True) | {"database_url": url}))


def test_a_database_that_is_away_during_a_run_costs_nothing_and_doubles_nothing(
    settings: Settings, database_url: str, engine: Engine
) -> None:
    proxy, url = in_front_of(database_url)
    node = NodeUnderTest(through(settings, url))
    proxy.cut()
    with proxy:
        node.start("agent")
        try:
            wait_until(lambda: "waiting for the database" in node.log(), what="a clear log line")
            proxy.restore()
            gate = node.data_dir / "gate"
            node_id = node.wait_registered(engine)
            with engine.begin() as connection:
                job_id, dispatch_id = waiting_job(connection, node_id, paced(gate, tasks=40))
            node.hand_over((job_id, dispatch_id))
            wait_until(lambda: counters(engine, job_id), what="events while it runs", timeout=60)
            proxy.cut()
            gate.touch()
            run = node.run_dir(dispatch_id)
            result = wait_until(run.read_result, what="the playbook ends meanwhile", timeout=60)
            assert job_row(engine, job_id).status == "running"
            wait_until(lambda: "events cannot be stored now" in node.log())
            with engine.begin() as connection:
                late = waiting_job(connection, node_id)
            proxy.restore()
            row = wait_final(engine, job_id)
            assert (row.status, row.events_complete) == ("successful", True)
            assert result is not None
            assert counters(engine, job_id) == list(range(1, result.events_total + 1))
            assert SpoolReader(run.spool).size == result.spool_bytes
            assert wait_final(engine, late[0]).status == "successful"
        finally:
            node.kill()


def test_an_outage_longer_than_fencing_stops_the_playbooks_by_design(
    settings: Settings, database_url: str, engine: Engine
) -> None:
    proxy, url = in_front_of(database_url)
    short = {"node_lost_after": 17.0, "node_lost_margin": 12.1, "heartbeat": 0.4}
    node = NodeUnderTest(through(settings, url), **short)
    with proxy:
        node.start("agent")
        try:
            node_id = node.wait_registered(engine)
            with engine.begin() as connection:
                play = paced(node.data_dir / "never")
                job_id, dispatch_id = waiting_job(connection, node_id, play)
            node.hand_over((job_id, dispatch_id))
            wait_until(lambda: counters(engine, job_id), what="events while it runs", timeout=60)
            proxy.cut()
            run = node.run_dir(dispatch_id)
            wait_until(run.read_result, what="the playbook is stopped", timeout=30)
            assert leftovers.find(str(dispatch_id)) == []
            proxy.restore()
            row = wait_final(engine, job_id)
            assert (row.status, row.outcome, row.events_complete) == ("error", "fenced", True)
        finally:
            node.kill()


def test_without_a_broker_the_node_finds_its_jobs_by_itself(
    settings: Settings, engine: Engine
) -> None:
    given = settings.model_dump(exclude_unset=True) | {"broker_url": "redis://127.0.0.1:1/0"}
    node = NodeUnderTest(settings_module.load(**given))
    node.start("agent")
    try:
        node_id = node.wait_registered(engine)
        with engine.begin() as connection:
            job_id, _ = waiting_job(connection, node_id)
        assert wait_final(engine, job_id, timeout=60).status == "successful"
    finally:
        node.kill()


def test_connections_that_are_half_open_are_given_up_within_seconds(
    settings: Settings, database_url: str, engine: Engine
) -> None:
    """A balancer that keeps the client's side open: neither TCP nor the server says anything."""
    proxy, url = in_front_of(database_url)
    node = NodeUnderTest(through(settings, url))
    with proxy:
        node.start("agent")
        try:
            node_id = node.wait_registered(engine)
            gate = node.data_dir / "gate"
            with engine.begin() as connection:
                job_id, dispatch_id = waiting_job(connection, node_id, paced(gate))
            node.hand_over((job_id, dispatch_id))
            wait_until(lambda: counters(engine, job_id), what="events while it runs")
            proxy.abandon()
            gate.touch()
            with engine.begin() as connection:
                late = waiting_job(connection, node_id)
            assert wait_final(engine, job_id).status == "successful"
            assert wait_final(engine, late[0]).status == "successful"
        finally:
            node.kill()


def test_a_node_whose_spool_is_full_takes_no_jobs_says_why_and_comes_back_by_itself(
    settings: Settings, engine: Engine
) -> None:
    node = NodeUnderTest(settings, spool_quota_bytes=1_000_000)
    node.start("agent")
    gate = node.data_dir / "gate"
    play = paced(gate, tasks=80).replace("after", "{{ 'x' * 10000 }}")

    def reason() -> str:
        with engine.connect() as connection:
            return connection.scalar(select(t.node.c.not_accepting_reason)) or ""

    try:
        node_id = node.wait_registered(engine)
        with engine.begin() as connection:
            job_id, dispatch_id = waiting_job(connection, node_id, play)
        node.hand_over((job_id, dispatch_id))
        wait_until(lambda: counters(engine, job_id), what="events while it runs")
        with engine.begin() as locking:  # nothing else of the database is in the way
            locking.execute(text("LOCK TABLE job_event IN EXCLUSIVE MODE"))
            gate.touch()
            words = wait_until(reason)
            assert words == f"the spool quota is full: the events of job {job_id} wait to be stored"
            assert node.metric("dispatcher_node_accepting") == 0
            wait_until(lambda: node.metric("dispatcher_spool_lag_bytes") >= 1_000_000)
            with engine.begin() as connection:
                late, _ = waiting_job(connection, node_id)
            wait_until(lambda: job_row(engine, late).status == "pending")
            assert job_row(engine, late).pending_reason["data"]["why"] == words
            assert job_row(engine, job_id).status == "running"
        wait_until(lambda: reason() == "")
        row = wait_final(engine, job_id)
        assert (row.status, row.events_complete) == ("successful", True)
        result = node.run_dir(dispatch_id).read_result()
        assert result is not None
        assert counters(engine, job_id) == list(range(1, result.events_total + 1))
        assert node.metric("dispatcher_node_accepting") == 1
    finally:
        node.kill()
