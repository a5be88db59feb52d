"""The TaskManager on a real database and broker: starts, submissions, isolation, windows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from sqlalchemy import Engine, event, text
from structlog.testing import capture_logs

from dispatcher import settings as settings_module
from dispatcher.broker.messages import Manager
from dispatcher.db import job_moves
from dispatcher.db.engine import make_engine
from dispatcher.db.migrate import migrate
from dispatcher.domain.outcome import Outcome
from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.settings import Settings
from schedulers.core.decision import Fail, Start, Strike
from schedulers.core.plan_tasks import plan_window
from schedulers.passes import manager_lease, task_manager
from schedulers.passes.manager_pass import Ended, Pass, Runner
from tests.databases import hold_every_connection
from tests.factories import make_job, make_node
from tests.passes import (
    another,
    changed,
    job_row,
    lease_row,
    make_jobs,
    runner,
    statuses,
    submitted,
)

TASK = Manager.TASK


def test_pending_jobs_wait_on_a_node_that_has_their_message(
    engine: Engine, settings: Settings, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection, "n1")
        jobs = {make_job(connection) for _ in range(5)}
    with capture_logs() as logged:
        assert running.trigger(TASK) == "complete"
    assert statuses(engine) == {"waiting": 5}
    (pairs,) = submitted(settings, "n1")
    (said,) = [record for record in logged if record["event"] == "jobs start"]
    assert said["count"] == 5
    assert {(j["job_id"], j["node"]) for j in said["jobs"]} == {(j, "n1") for j in jobs}
    assert {(j["job_id"], j["dispatch_id"]) for j in said["jobs"]} == {
        (job_id, str(dispatch)) for job_id, dispatch in pairs
    }
    assert {job_id for job_id, _ in pairs} == jobs
    assert all(job_row(engine, job_id).dispatch_id == dispatch for job_id, dispatch in pairs)


def test_starts_of_one_node_go_in_batches_of_a_hundred(
    engine: Engine, settings: Settings, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection, "n1", capacity=10_000, max_jobs=1_000)
        make_jobs(connection, 350)
    assert running.trigger(TASK) == "complete"
    # windows of 100 and 500: each is submitted before the next is read
    assert [len(pairs) for pairs in submitted(settings, "n1")] == [100, 100, 100, 50]


def test_a_job_without_room_is_told_why_and_its_reason_is_not_written_again(
    engine: Engine, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection, capacity=2)
        make_job(connection)
        held = make_job(connection)
    running.trigger(TASK)
    row = job_row(engine, held)
    assert (row.status, row.pending_reason["code"]) == ("pending", "no_capacity")
    with changed(engine):
        pass
    version = row_version(engine, held)
    assert running.trigger(TASK) == "complete"
    assert row_version(engine, held) == version


def test_a_job_whose_dependency_failed_fails_and_wakes_what_waits_for_it(
    engine: Engine, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        update = make_job(connection, status="failed")
        first, second = make_job(connection), make_job(connection)
        for job_id, other in ((first, update), (second, first)):
            connection.execute(
                text("INSERT INTO job_dependency VALUES (:job, :other)"),
                {"job": job_id, "other": other},
            )
    running.trigger(TASK)
    assert job_row(engine, first).outcome == "dependency"
    running.trigger(TASK)
    assert job_row(engine, second).outcome == "dependency"


def test_a_workflow_job_begins_without_a_node_and_is_to_be_looked_at(
    engine: Engine, running: Runner
) -> None:
    with changed(engine) as connection:
        workflow = make_job(connection, kind="workflow", task_impact=0)
    running.trigger(TASK)
    row = job_row(engine, workflow)
    assert (row.status, row.dispatch_id) == ("running", None)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT workflow_job_id FROM workflow_touch")) == workflow


# -- fruitless passes


def test_a_fruitless_pass_costs_the_same_few_statements_whatever_the_backlog(
    engine: Engine, running: Runner
) -> None:
    counts = []
    for more in (5, 300):
        with changed(engine) as connection:
            make_jobs(connection, more)
        assert running.trigger(TASK) == "complete"
        with counting(running.engine) as statements:
            assert running.trigger(TASK) == "fruitless"
        counts.append(len(statements))
        assert not any("FROM job" in statement for statement in statements)
    assert counts[0] == counts[1] <= 20


def test_a_change_makes_the_next_pass_look_again(engine: Engine, running: Runner) -> None:
    with changed(engine) as connection:
        make_job(connection)
    assert running.trigger(TASK) == "complete"
    assert running.trigger(TASK) == "fruitless"
    with changed(engine) as connection:
        make_node(connection)
    assert running.trigger(TASK) == "complete"
    assert statuses(engine) == {"waiting": 1}


def test_a_change_after_the_snapshot_is_not_taken_for_seen(
    engine: Engine, settings: Settings
) -> None:
    """Committed between load and the end of the pass: the next pass must find it."""

    def late(under_way: Pass) -> Ended:
        ended = task_manager.run(under_way)
        if not late_done:
            late_done.append(True)
            with changed(engine) as connection:
                make_node(connection)
        return ended

    late_done: list[bool] = []
    with changed(engine) as connection:
        make_job(connection)
    with runner(settings, {TASK: late}) as running:
        assert running.trigger(TASK) == "complete"
        assert statuses(engine) == {"pending": 1}
        assert running.trigger(TASK) == "complete"
    assert statuses(engine) == {"waiting": 1}


def test_a_row_locked_by_somebody_is_left_out_and_looked_at_again(
    engine: Engine, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        locked, free = make_job(connection), make_job(connection)
    with engine.begin() as connection:
        connection.execute(text("SELECT 1 FROM job WHERE id = :id FOR UPDATE"), {"id": locked})
        assert running.trigger(TASK) == "complete"
        assert job_row(engine, free).status == "waiting"
        connection.rollback()
    assert running.trigger(TASK) == "complete"
    assert job_row(engine, locked).status == "waiting"


# -- one bad job never stops the others


@pytest.mark.parametrize("whole_window", [True, False])
def test_a_job_whose_planning_raises_is_set_aside_and_the_others_start(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch, whole_window: bool
) -> None:
    with changed(engine) as connection:
        make_node(connection, capacity=1_000)
        jobs = make_jobs(connection, 60)
    bad = jobs[17]

    def plan(ledger: Any, pending: Sequence[Any], limit: int) -> Any:
        if any(job.id == bad for job in pending):
            if whole_window:
                raise ZeroDivisionError("boom")
            decisions, after = plan_window(ledger, [j for j in pending if j.id != bad], limit)
            return [*decisions, Strike(bad, "ZeroDivisionError: boom")], after
        return plan_window(ledger, pending, limit)

    monkeypatch.setattr(task_manager, "plan_window", plan)
    with runner(settings) as running:
        assert running.trigger(TASK) == "complete"
        assert statuses(engine) == {"waiting": 59, "pending": 1}
        row = job_row(engine, bad)
        assert (row.strikes, row.quarantined_until is not None) == (1, True)
        assert running.trigger(TASK) == "fruitless", "nobody looks at it before its time"
        for _ in range(2):
            end_quarantine(engine)
            assert running.trigger(TASK) == "complete"
        row = job_row(engine, bad)
    assert (row.status, row.outcome, row.strikes) == ("failed", "refused", 3)
    assert "ZeroDivisionError: boom" in row.explanation


def test_a_job_whose_writing_raises_is_set_aside_and_the_others_start(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with changed(engine) as connection:
        make_node(connection, capacity=1_000)
        jobs = make_jobs(connection, 60)
    bad = jobs[41]

    def plan(ledger: Any, pending: Sequence[Any], limit: int) -> Any:
        decisions, after = plan_window(ledger, pending, limit)
        # an outcome that the schema refuses for a failed job: a real CHECK, for one row of a batch
        return [
            Fail(d.job_id, Outcome.INTERNAL, "") if d.job_id == bad else d for d in decisions
        ], after

    monkeypatch.setattr(task_manager, "plan_window", plan)
    with runner(settings) as running:
        assert running.trigger(TASK) == "complete"
    assert statuses(engine) == {"waiting": 59, "pending": 1}
    assert job_row(engine, bad).strikes == 1


def test_a_window_that_kills_its_process_is_halved_until_one_job_is_set_aside(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill is a holder that leaves its window open and never comes back."""
    with changed(engine) as connection:
        make_node(connection, capacity=1_000)
        jobs = make_jobs(connection, 40)
    bad = jobs[23]

    class Killed(BaseException):
        pass

    def plan(ledger: Any, pending: Sequence[Any], limit: int) -> Any:
        if any(job.id == bad for job in pending):
            raise Killed
        return plan_window(ledger, pending, limit)

    monkeypatch.setattr(task_manager, "plan_window", plan)
    kills = 0
    with runner(settings) as running:
        while job_row(engine, bad).strikes == 0:
            assert kills < 12
            try:
                another(running).trigger(TASK)
            except Killed:
                kills += 1
                expire(engine)
    assert statuses(engine) == {"waiting": 39, "pending": 1}
    assert kills >= 3, "the first two kills are given to the whole window"


# -- windows, cursors, limits


def test_a_pass_is_cut_at_its_rows_and_the_next_goes_on_where_it_stopped(
    engine: Engine, settings: Settings
) -> None:
    settings = settings.model_copy(update={"pass_rows": 100})
    with changed(engine) as connection:
        make_jobs(connection, 250)
        last = make_job(connection, kind="workflow", task_impact=0)
    passes = []

    def watched(under_way: Pass) -> Ended:
        passes.append(dict(under_way.lease.cursors))
        return task_manager.run(under_way)

    with runner(settings, {TASK: watched}) as running:
        assert running.trigger(TASK) == "complete"
    assert job_row(engine, last).status == "running"
    assert len(passes) >= 2
    assert not passes[0]
    assert all(passes[1:])
    assert lease_row(engine, TASK).cursors == {}


def test_a_backlog_of_several_passes_is_fruitless_once_it_was_walked(
    engine: Engine, settings: Settings
) -> None:
    settings = settings.model_copy(update={"pass_rows": 100})
    with changed(engine) as connection:
        make_jobs(connection, 350)
    with runner(settings) as running:
        assert running.trigger(TASK) == "complete"
        with counting(running.engine) as statements:
            assert running.trigger(TASK) == "fruitless"
    assert not any("FROM job" in statement for statement in statements)
    assert len(statements) <= 20


@pytest.mark.parametrize("when", [1, 2, 3])
def test_a_change_during_a_walk_of_several_passes_makes_the_next_pass_look_again(
    engine: Engine, settings: Settings, when: int
) -> None:
    """Right after the pass with this number, in which the walk has not ended."""
    settings = settings.model_copy(update={"pass_rows": 100})
    with changed(engine) as connection:
        make_jobs(connection, 350)
    passes = []

    def late(under_way: Pass) -> Ended:
        ended = task_manager.run(under_way)
        passes.append(ended.result)
        if len(passes) == when:
            with changed(engine) as connection:
                make_node(connection, capacity=1000)
        return ended

    with runner(settings, {TASK: late}) as running:
        running.trigger(TASK)
        running.trigger(TASK)
    assert passes[when - 1] == "budget"
    assert statuses(engine)["waiting"] == 200, "the node holds no more"


def test_a_walk_whose_pass_was_killed_is_made_again(engine: Engine, settings: Settings) -> None:
    settings = settings.model_copy(update={"pass_rows": 100})
    with changed(engine) as connection:
        make_jobs(connection, 350)

    def killed(under_way: Pass) -> Ended:
        if under_way.lease.cursors:
            raise RuntimeError("the process is gone")
        return task_manager.run(under_way)

    with runner(settings, {TASK: killed}) as running, pytest.raises(RuntimeError):
        running.trigger(TASK)
    with runner(settings) as running:
        assert running.trigger(TASK) == "complete"
        assert running.trigger(TASK) == "complete", "the rest alone does not count"
        assert running.trigger(TASK) == "fruitless"


def test_what_falls_due_in_an_earlier_pass_of_a_walk_is_not_forgotten(
    engine: Engine, settings: Settings
) -> None:
    settings = settings.model_copy(update={"pass_rows": 100})
    with changed(engine) as connection:
        node_id = make_node(connection, capacity=10)
        make_job(connection, status="running", node_id=node_id, task_impact=10)
        first = make_job(connection)
        make_jobs(connection, 300, dependencies_processed=True, preferred_groups=[0])
    with runner(settings) as running:
        assert running.trigger(TASK) == "complete"
    due = job_row(engine, first).held_since + timedelta(seconds=settings.reserve_after)
    assert lease_row(engine, TASK).next_due == due


def test_every_pending_job_is_decided_about_exactly_once_in_a_pass(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with changed(engine) as connection:
        jobs = [make_job(connection, priority=n % 3) for n in range(700)]
    decided: list[int] = []

    def plan(ledger: Any, pending: Sequence[Any], limit: int) -> Any:
        decided.extend(job.id for job in pending)
        return plan_window(ledger, pending, limit)

    monkeypatch.setattr(task_manager, "plan_window", plan)
    with runner(settings) as running:
        assert running.trigger(TASK) == "complete"
    assert sorted(decided) == jobs


def test_of_each_tenant_a_window_has_its_weights_share_in_the_stored_order(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows: list[list[int]] = []

    def plan(ledger: Any, pending: Sequence[Any], limit: int) -> Any:
        windows.append([job.id for job in pending])
        return plan_window(ledger, pending, limit)

    monkeypatch.setattr(task_manager, "plan_window", plan)
    with changed(engine) as connection:
        other = connection.execute(
            text("INSERT INTO organization (name, weight) VALUES ('Other', 3) RETURNING id")
        ).scalar_one()
        first = make_jobs(connection, 140)
        second = make_jobs(connection, 90, organization_id=other)
    with runner(settings) as running:
        running.trigger(TASK)
    assert [sorted(window) for window in windows] == [
        first[:25] + second[:75],
        first[25:140] + second[75:],
    ]


def test_pauses_and_limits_of_tenants_and_templates_hold(engine: Engine, running: Runner) -> None:
    with changed(engine) as connection:
        make_node(connection, capacity=100)
        connection.execute(text("UPDATE organization SET max_concurrent_jobs = 3"))
        organization, template = connection.execute(
            text(
                "INSERT INTO job_template (organization_id, name, playbook, max_concurrent_jobs)"
                " SELECT id, 'deploy', 'site.yml', 1 FROM organization RETURNING organization_id, id"
            )
        ).one()
        first, second = make_jobs(connection, 2, job_template_id=template)
        alone, waits = make_jobs(connection, 2, allow_simultaneous=False)
        others = make_jobs(connection, 2)
        connection.execute(
            text("INSERT INTO pause (organization_id, reason) VALUES (:id, 'audit')"),
            {"id": organization},
        )
    running.trigger(TASK)
    assert {job_row(engine, i).pending_reason["code"] for i in (first, waits, others[0])} == {
        "paused"
    }
    with changed(engine) as connection:
        connection.execute(text("DELETE FROM pause"))
    running.trigger(TASK)
    assert [job_row(engine, i).status for i in (first, alone, waits)] == ["waiting"] * 3
    assert job_row(engine, second).pending_reason["code"] == "template_limit"
    assert job_row(engine, others[0]).pending_reason["code"] == "tenant_limit"
    with changed(engine) as connection:
        connection.execute(text("UPDATE organization SET max_concurrent_jobs = 0"))
    running.trigger(TASK)
    assert [job_row(engine, i).status for i in others] == ["waiting"] * 2


def test_tenants_take_turns_by_weight_and_what_ended_lately_counts(
    engine: Engine, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection, capacity=8)
        other = connection.execute(
            text("INSERT INTO organization (name, weight) VALUES ('Other', 3) RETURNING id")
        ).scalar_one()
        first = make_jobs(connection, 10)
        second = make_jobs(connection, 10, organization_id=other)
    running.trigger(TASK)
    assert statuses(engine) == {"waiting": 4, "pending": 16}
    assert [job_row(engine, job_id).status for job_id in [first[0], *second[:3]]] == ["waiting"] * 4
    with changed(engine) as connection:
        connection.execute(
            text(
                "UPDATE job SET status = 'successful', outcome = 'successful', events_complete = true,"
                " started = dispatcher_now() - interval '50 s', finished = dispatcher_now()"
                " WHERE status = 'waiting'"
            )
        )
        connection.execute(text("UPDATE organization SET weight = 1"))
    running.trigger(TASK)
    assert [job_row(engine, job_id).status for job_id in first[1:4]] == ["waiting"] * 3


def test_the_head_is_looked_at_between_windows_when_something_was_asked_for(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An urgent job that comes while a backlog is walked starts before the walk ends."""
    order: list[int] = []
    urgent: list[int] = []

    def plan(ledger: Any, pending: Sequence[Any], limit: int) -> Any:
        order.extend(job.id for job in pending)
        if not urgent:
            with changed(engine) as connection:
                urgent.append(make_job(connection, priority=50))
            manager_lease.request(engine, TASK)
        return plan_window(ledger, pending, limit)

    monkeypatch.setattr(task_manager, "plan_window", plan)
    with changed(engine) as connection:
        jobs = make_jobs(connection, 700)
    with runner(settings) as running:
        assert running.trigger(TASK) == "complete"
    assert order.index(urgent[0]) == 100, "right after the window that was under way"
    assert order[101:701] == jobs[100:], "then the cursor goes on"


def test_requests_without_end_do_not_keep_the_cursor_from_the_tail(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def plan(ledger: Any, pending: Sequence[Any], limit: int) -> Any:
        nonlocal asked
        if asked < 30:
            asked += 1
            with changed(engine) as connection:
                make_job(connection, priority=asked)
            manager_lease.request(engine, TASK)
        return plan_window(ledger, pending, limit)

    monkeypatch.setattr(task_manager, "plan_window", plan)
    with changed(engine) as connection:
        make_jobs(connection, 700)
        last = make_job(connection, kind="workflow", task_impact=0)
    with runner(settings) as running:
        running.trigger(TASK)
    assert job_row(engine, last).status == "running"
    assert asked >= 5


def test_a_pass_stops_at_its_start_limit_and_asks_for_another(
    engine: Engine, settings: Settings
) -> None:
    settings = settings.model_copy(update={"start_limit": 10})
    results: list[str] = []

    def watched(under_way: Pass) -> Ended:
        ended = task_manager.run(under_way)
        results.append(ended.result)
        return ended

    with changed(engine) as connection:
        make_node(connection)
        make_jobs(connection, 25)
    with runner(settings, {TASK: watched}) as running:
        assert running.trigger(TASK) == "complete"
    assert results == ["budget", "budget", "complete"]
    assert statuses(engine) == {"waiting": 25}


def test_a_process_that_is_to_end_stops_after_the_window_in_hand(
    engine: Engine, settings: Settings
) -> None:
    with changed(engine) as connection:
        make_node(connection, capacity=10_000, max_jobs=1_000)
        make_jobs(connection, 300)
    with runner(settings, stopping=lambda: True) as running:
        assert running.trigger(TASK) == "budget"
        assert statuses(engine) == {"waiting": 100, "pending": 200}
    with runner(settings) as running:
        assert running.trigger(TASK) == "complete"
    assert statuses(engine) == {"waiting": 300}


# -- the lease around it


def test_a_busy_manager_runs_again_for_whoever_found_it_busy(
    engine: Engine, settings: Settings
) -> None:
    inside, go_on = threading.Event(), threading.Event()
    passes = 0

    def slow(under_way: Pass) -> Ended:
        nonlocal passes
        passes += 1
        ended = task_manager.run(under_way)
        if passes == 1:
            inside.set()
            assert go_on.wait(20)
        return ended

    with runner(settings, {TASK: slow}) as running, runner(settings) as second:
        thread = threading.Thread(target=running.trigger, args=(TASK,))
        thread.start()
        assert inside.wait(20)
        with changed(engine) as connection:
            make_node(connection)
            job_id = make_job(connection)
        assert another(second).trigger(TASK) == "busy"
        go_on.set()
        thread.join(20)
    assert passes == 2
    assert job_row(engine, job_id).status == "waiting"
    row = lease_row(engine, TASK)
    assert row.requested == row.served == 2


def test_no_job_is_left_behind_by_triggers_that_meet_at_random(
    engine: Engine, settings: Settings
) -> None:
    with changed(engine) as connection:
        make_node(connection, capacity=10_000, max_jobs=1_000)

    def launch_and_trigger() -> None:
        with runner(settings) as own:
            mine = another(own)
            for _ in range(15):
                with changed(engine) as connection:
                    make_job(connection)
                mine.trigger(TASK)

    threads = [threading.Thread(target=launch_and_trigger) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses(engine) == {"waiting": 60}


def test_a_pass_whose_lease_was_taken_writes_nothing_more(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        make_job(connection)

    def plan(ledger: Any, pending: Sequence[Any], limit: int) -> Any:
        expire(engine)
        assert manager_lease.take(engine, TASK, another(running).holder, 20.0) is not None
        return plan_window(ledger, pending, limit)

    monkeypatch.setattr(task_manager, "plan_window", plan)
    with runner(settings) as running:
        assert running.trigger(TASK) == "lease_lost"
    assert statuses(engine) == {"pending": 1}


def test_a_start_that_somebody_overtook_is_dropped_without_harm(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        canceled, started = make_job(connection), make_job(connection)

    def plan(ledger: Any, pending: Sequence[Any], limit: int) -> Any:
        decisions, after = plan_window(ledger, pending, limit)
        assert [type(d) for d in decisions] == [Start, Start]
        with engine.begin() as connection:
            job_moves.cancel(connection, canceled)
        return decisions, after

    monkeypatch.setattr(task_manager, "plan_window", plan)
    with runner(settings) as running:
        running.trigger(TASK)
    assert job_row(engine, canceled).status == "canceled"
    assert [[job for job, _ in pairs] for pairs in submitted(settings, "n1")] == [[started]]


def test_an_error_gives_the_lease_back(engine: Engine, settings: Settings) -> None:
    def fails(_: Pass) -> Ended:
        raise RuntimeError("not a job's fault")

    with runner(settings, {TASK: fails}) as running:
        with pytest.raises(RuntimeError):
            running.trigger(TASK)
        row = lease_row(engine, TASK)
        assert (row.holder, row.served) == (None, 0), "the request stays owed"
    with runner(settings) as other:
        assert another(other).trigger(TASK) == "complete"


# -- invariant 5, for real


def test_a_pass_starts_and_submits_while_somebody_holds_every_database_connection(
    data_dir: Path, broker_url: str
) -> None:
    server = EmbeddedPostgres(data_dir / "postgres", max_connections=20, durable=False)
    server.start()
    hogs: list[psycopg2.extensions.connection] = []
    try:
        settings = settings_module.load(
            database_url=server.url("postgres"), broker_url=broker_url, data_dir=data_dir
        )
        engine = make_engine(settings, application_name="test")
        migrate(engine)
        with changed(engine) as connection:
            make_node(connection, capacity=1_000, max_jobs=1_000)
        with runner(settings) as running:
            assert running.trigger(TASK) == "complete"
            with changed(engine) as connection:
                make_jobs(connection, 150)
            hold_every_connection(server.url("postgres"), hogs)
            assert running.trigger(TASK) == "complete"
            assert sum(len(pairs) for pairs in submitted(settings, "n1")) == 150
        engine.dispose()
    finally:
        for hog in hogs:
            hog.close()
        server.stop()


# -- small helpers


def row_version(engine: Engine, job_id: int) -> str:
    """Changes with every write to the row."""
    with engine.connect() as connection:
        return str(
            connection.execute(
                text("SELECT xmin::text FROM job WHERE id = :id"), {"id": job_id}
            ).scalar_one()
        )


def end_quarantine(engine: Engine) -> None:
    """As if the time had passed, for the job and for what the last pass noted of it."""
    with engine.begin() as connection:
        connection.execute(text("UPDATE job SET quarantined_until = dispatcher_now()"))
        connection.execute(text("UPDATE manager_lease SET next_due = dispatcher_now()"))


def expire(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE manager_lease SET expires_at = dispatcher_now()"))


class counting:
    """The SQL statements that an engine executes meanwhile."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.statements: list[str] = []

    def _note(self, *arguments: Any) -> None:
        self.statements.append(arguments[2])

    def __enter__(self) -> list[str]:
        event.listen(self._engine, "before_cursor_execute", self._note)
        return self.statements

    def __exit__(self, *_: object) -> None:
        event.remove(self._engine, "before_cursor_execute", self._note)
