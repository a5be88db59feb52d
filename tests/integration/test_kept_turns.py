"""Times that decide in a pass: how long a job is held, how long locks are kept after a forced stop."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, Engine, text

from dispatcher.broker.messages import Manager
from dispatcher.domain.outcome import Outcome
from dispatcher.settings import Settings
from schedulers.passes.manager_pass import Runner
from tests.factories import make_job, make_node
from tests.passes import changed, job_row, lease_row

TASK = Manager.TASK


def earlier(connection: Connection, column: str, seconds: float, job_id: int) -> None:
    """As if it had been so much longer ago."""
    connection.execute(
        text(
            f"UPDATE job SET {column} = {column} - make_interval(secs => :seconds) WHERE id = :id"
        ),
        {"seconds": seconds, "id": job_id},
    )


# -- held


def test_a_job_is_held_from_the_first_pass_that_lacks_room_for_it_until_it_starts(
    engine: Engine, running: Runner
) -> None:
    with changed(engine) as connection:
        node_id = make_node(connection, capacity=10)
        busy = make_job(connection, status="running", node_id=node_id, task_impact=6)
        large = make_job(connection, task_impact=8, priority=1)
    running.trigger(TASK)
    since = job_row(engine, large).held_since
    assert since is not None
    with changed(engine):
        pass
    running.trigger(TASK)
    assert job_row(engine, large).held_since == since
    with changed(engine) as connection:
        connection.execute(
            text(
                "UPDATE job SET status = 'successful', outcome = 'successful',"
                " finished = dispatcher_now(), events_complete = true WHERE id = :id"
            ),
            {"id": busy},
        )
    running.trigger(TASK)
    row = job_row(engine, large)
    assert (row.status, row.held_since) == ("waiting", None)


def test_a_priority_reserves_nothing_and_time_does(
    engine: Engine, settings: Settings, running: Runner
) -> None:
    with changed(engine) as connection:
        node_id = make_node(connection, capacity=10)
        make_job(connection, status="running", node_id=node_id, task_impact=6)
        large = make_job(connection, task_impact=8, priority=1)
        overtakes = make_job(connection, task_impact=2)
    running.trigger(TASK)
    assert job_row(engine, overtakes).status == "waiting"
    with changed(engine) as connection:
        earlier(connection, "held_since", settings.reserve_after, large)
        behind = make_job(connection, task_impact=2)
    running.trigger(TASK)
    row = job_row(engine, behind)
    assert row.status == "pending"
    assert row.pending_reason["data"]["reserved_for"] == large


def test_time_spent_on_a_dependency_or_a_pause_does_not_count(
    engine: Engine, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        update = make_job(connection, kind="project_update", dependencies_processed=False)
        waits = make_job(connection)
        connection.execute(
            text("INSERT INTO job_dependency VALUES (:job, :on)"), {"job": waits, "on": update}
        )
    running.trigger(TASK)
    assert job_row(engine, waits).held_since is None
    with changed(engine) as connection:
        connection.execute(text("DELETE FROM job_dependency"))
        connection.execute(text("INSERT INTO pause (reason) VALUES ('')"))
    running.trigger(TASK)
    assert job_row(engine, waits).held_since is None
    assert job_row(engine, waits).pending_reason["code"] == "paused"


# -- kept locks


def _locked(connection: Connection, **columns: object) -> int:
    return make_job(connection, host_lock="exclusive", lock_keys=["host:h:22"], **columns)


@pytest.mark.parametrize(
    ("status", "outcome", "ran", "kept"),
    [
        ("canceled", Outcome.CANCELED, True, True),
        ("error", Outcome.NODE_LOST, True, True),
        ("failed", Outcome.TIMEOUT, True, True),
        ("canceled", Outcome.CANCELED, False, False),
        ("successful", Outcome.SUCCESSFUL, True, False),
        ("failed", Outcome.FAILED_HOSTS, True, False),
    ],
    ids=["canceled", "lost", "out of time", "canceled before it ran", "successful", "failed"],
)
def test_exclusive_locks_are_kept_after_a_forced_stop_and_only_then(
    engine: Engine, running: Runner, status: str, outcome: Outcome, ran: bool, kept: bool
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        started = {"started": text("dispatcher_now()")} if ran else {}
        ended = _locked(connection, status=status, outcome=str(outcome), **started)
        waits = _locked(connection)
    running.trigger(TASK)
    row = job_row(engine, waits)
    assert row.status == ("pending" if kept else "waiting")
    if kept:
        assert row.pending_reason["data"]["cooling"] == [ended]


def test_the_pass_that_frees_kept_locks_comes_by_the_clock_alone(
    engine: Engine, settings: Settings, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        ended = _locked(connection, status="canceled", started=text("dispatcher_now()"))
        waits = _locked(connection)
    assert running.trigger(TASK) == "complete"
    assert running.trigger(TASK) == "fruitless"
    due = lease_row(engine, TASK).next_due
    assert (due - job_row(engine, ended).finished).total_seconds() == pytest.approx(
        settings.lock_cooldown, abs=0.01
    )
    with engine.begin() as connection:
        earlier(connection, "finished", settings.lock_cooldown, ended)
        connection.execute(text("UPDATE manager_lease SET next_due = dispatcher_now()"))
    assert running.trigger(TASK) == "complete"
    assert job_row(engine, waits).status == "waiting"
