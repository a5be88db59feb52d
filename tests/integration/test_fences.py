"""Faults of the ancestors that are fenced off by how passes and moves are made, one test each.

``tests/architecture/test_ancestors.py`` has the whole table.
"""

from __future__ import annotations

from typing import Any

import pytest
from psycopg2.extensions import connection as PsycopgConnection
from sqlalchemy import Connection, Engine, event, text

from dispatcher.actions.cancel import cancel_job
from dispatcher.broker.messages import Manager, Owed
from dispatcher.db import job_moves
from dispatcher.db.engine import make_engine, transaction
from dispatcher.domain.outcome import Outcome
from dispatcher.settings import Settings
from schedulers.core.decision import Fail, FinishLost
from schedulers.passes import apply, apply_recovery, manager_lease, task_manager
from schedulers.passes.holder import Holder
from schedulers.passes.manager_pass import Ended, Pass, Runner
from tests.factories import make_job, make_node
from tests.passes import changed, job_row, make_jobs, runner, statuses
from tests.racing import at_once
from tests.templates import make_inventory, make_project, make_template
from workers.finish import after_final

TASK = Manager.TASK


def test_a_pass_that_is_killed_loses_no_more_than_the_window_in_hand(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWX 7655: a pass was one transaction; killed after five minutes, it began again at zero."""
    with changed(engine) as connection:
        make_node(connection, capacity=10_000, max_jobs=2_000)
        make_jobs(connection, 800)
    plan = task_manager.plan_window
    windows = []

    def killed(*arguments: Any) -> Any:
        windows.append(len(arguments[1]))
        if len(windows) == 3:
            raise SystemExit
        return plan(*arguments)

    monkeypatch.setattr(task_manager, "plan_window", killed)
    with runner(settings) as running, pytest.raises(SystemExit):
        running.trigger(TASK)
    assert windows == [100, 500, 200]
    assert statuses(engine) == {"waiting": 600, "pending": 200}


@pytest.mark.parametrize(("start_limit", "read"), [(0, [600, 600, 300]), (10, [100])])
def test_a_pass_reads_no_more_rows_than_it_may_whatever_the_backlog(
    engine: Engine,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    start_limit: int,
    read: list[int],
) -> None:
    """AWX 12199: the limit of starts did not bound the reading; 39,000 pending took 18 s to load."""
    settings = settings.model_copy(update={"pass_rows": 600, "start_limit": start_limit})
    with changed(engine) as connection:
        make_node(connection, capacity=10_000, max_jobs=2_000 if start_limit else 0)
        make_jobs(connection, 1_500)
    plan = task_manager.plan_window
    rows: list[int] = []

    def counted(*arguments: Any) -> Any:
        rows[-1] += len(arguments[1])
        return plan(*arguments)

    def one(under_way: Pass) -> Ended:
        rows.append(0)
        return task_manager.run(under_way)

    monkeypatch.setattr(task_manager, "plan_window", counted)
    with runner(settings, {TASK: one}, stopping=lambda: bool(start_limit and rows)) as running:
        running.trigger(TASK)
    assert rows == read
    assert statuses(engine).get("waiting", 0) == start_limit


def test_a_runnable_new_job_starts_in_one_run_behind_many_that_cannot(
    engine: Engine, running: Runner
) -> None:
    """AWX 12440: the first of the order were read, and none behind them as long as they waited."""
    with changed(engine) as connection:
        make_node(connection, capacity=10_000, max_jobs=2_000)
        template = make_template(connection, make_project(connection), make_inventory(connection))
        alone = {"job_template_id": template, "allow_simultaneous": False}
        make_job(connection, status="running", **alone)
        make_jobs(connection, 1_500, **alone)
        newest = make_job(connection)
    running.trigger(TASK)
    assert job_row(engine, newest).status == "waiting"


def test_leases_need_nothing_of_a_session(database_url: str, settings: Settings) -> None:
    """AWX 3418: behind a pool in transaction mode a session's locks and settings are anybody's."""
    engine = make_engine(settings, application_name="reset")
    left: set[tuple[str, ...]] = set()

    @event.listens_for(engine, "checkin")
    def _reset(raw: PsycopgConnection | None, _record: Any) -> None:
        if raw is None:
            return
        raw.autocommit = True
        with raw.cursor() as cursor:
            cursor.execute(
                "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'),"
                " current_setting('idle_in_transaction_session_timeout'),"
                " (SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory')"
            )
            left.add(cursor.fetchone())
            cursor.execute("DISCARD ALL")
        raw.autocommit = False

    me = Holder.of_this_process()
    lease = manager_lease.take(engine, TASK, me, 20.0)
    assert lease is not None
    with transaction(engine, statement_timeout=3.0) as connection:
        manager_lease.renew(connection, lease)
    other = Holder(me.id.__class__(int=7), "elsewhere", me.boot_id, me.pid, me.pid_start)
    assert manager_lease.take(engine, TASK, other, 20.0) is None
    with transaction(engine) as connection:
        manager_lease.renew(connection, lease)
        manager_lease.release(connection, lease, completed=True)
    assert manager_lease.take(engine, TASK, other, 20.0) is not None
    engine.dispose()
    assert left == {("0", "0", "0", "0")}


def test_ends_of_one_templates_jobs_meet_on_no_row_of_it(engine: Engine) -> None:
    """AWX 695, 13553, 15987: every end wrote its template's row, and they waited in a circle."""
    with transaction(engine) as connection:
        make_node(connection)
        template = make_template(connection, make_project(connection), make_inventory(connection))
        jobs = [
            make_job(connection, status="running", job_template_id=template) for _ in range(120)
        ]
        dispatches = dict(connection.execute(text("SELECT id, dispatch_id FROM job")).all())
        versions = _versions(connection)

    def finish(order: list[int]) -> None:
        for first in range(0, len(order), 20):
            with transaction(engine, lock_timeout=10) as connection:
                done = [
                    job_moves.finish(
                        connection,
                        job_id,
                        dispatch_id=dispatches[job_id],
                        outcome=Outcome.SUCCESSFUL,
                        explanation="",
                    )
                    for job_id in order[first : first + 20]
                ]
                after_final(connection, [one for one in done if one is not None])

    threads = [[*jobs[n::4]] for n in range(4)]
    assert at_once([lambda part=part: finish(part) for part in threads]) == [None] * 4
    with engine.connect() as connection:
        assert _versions(connection) == versions
    assert statuses(engine) == {"successful": 120}


def _versions(connection: Connection) -> list[tuple[Any, ...]]:
    """Which transaction has written each row that many jobs share."""
    tables = ("job_template", "project", "inventory", "organization", "instance_group")
    return [
        tuple(row)
        for table in tables
        for row in connection.execute(text(f"SELECT xmin::text, id FROM {table} ORDER BY id"))
    ]


@pytest.mark.parametrize("how", ["finished", "canceled", "refused", "lost"])
def test_whatever_ends_a_job_wakes_who_waits_for_it(engine: Engine, how: str) -> None:
    """AWX 3553, 7683: a plain end woke nobody; 20 s until the job behind an update started."""
    with transaction(engine) as connection:
        node_id = make_node(connection)
        status = "running" if how in ("finished", "lost") else "pending"
        columns = {"node_id": node_id} if status == "running" else {}
        job_id = make_job(connection, status=status, **columns)
        workflow = make_job(connection, kind="workflow", status="running")
        connection.execute(
            text(
                "INSERT INTO workflow_node (workflow_job_id, identifier, job_id)"
                " VALUES (:workflow, 'a', :job)"
            ),
            {"workflow": workflow, "job": job_id},
        )
        before = connection.scalar(text("SELECT sum(value) FROM change"))
        owed = _end(connection, job_id, how)
        after = connection.scalar(text("SELECT sum(value) FROM change"))
    assert owed.wakes >= {Manager.TASK, Manager.WORKFLOW}
    assert after > before or how in ("refused", "lost"), "those are a pass's own, which raises it"


def _end(connection: Connection, job_id: int, how: str) -> Owed:
    if how == "canceled":
        return cancel_job(connection, job_id).owed
    if how == "refused":
        decision = Fail(job_id, Outcome.DEPENDENCY, "")
        applied = apply.fail_jobs(connection, [decision])
        assert applied.changed
        return applied.owed
    dispatch = connection.execute(
        text("SELECT dispatch_id FROM job WHERE id = :id"), {"id": job_id}
    ).scalar_one()
    if how == "lost":
        applied = apply_recovery.finish_lost(connection, [FinishLost(job_id, dispatch, "n1")])
        assert applied.changed
        return applied.owed
    done = job_moves.finish(
        connection, job_id, dispatch_id=dispatch, outcome=Outcome.SUCCESSFUL, explanation=""
    )
    assert done is not None
    return after_final(connection, [done]).owed
