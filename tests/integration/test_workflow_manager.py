"""Dependency and workflow managers on a real database: linked, touched, canceled, ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import Connection, Engine, text

from dispatcher.broker.messages import Manager
from dispatcher.db.workflow_touches import touch_workflows, touch_workflows_of
from dispatcher.settings import Settings
from schedulers.core.decision import LinkDependencies
from schedulers.core.snapshot import UnprocessedJob, UpdateWorld
from schedulers.passes import dependency_manager, workflow_manager
from schedulers.passes.manager_pass import Runner
from tests.factories import make_job, make_node
from tests.passes import changed, job_row, runner, submitted

WORKFLOW = Manager.WORKFLOW
DEPENDENCY = Manager.DEPENDENCY


@pytest.fixture
def running(settings: Settings) -> Iterator[Runner]:
    with runner(settings) as made:
        made.trigger(WORKFLOW)  # the first look at everything
        yield made


def make_workflow(connection: Connection, *children: int, **columns: Any) -> int:
    workflow = make_job(connection, kind="workflow", status="running", **columns)
    for number, child in enumerate(children):
        connection.execute(
            text(
                "INSERT INTO workflow_node (workflow_job_id, identifier, job_id)"
                " VALUES (:workflow, :name, :job)"
            ),
            {"workflow": workflow, "name": f"step {number}", "job": child},
        )
    return workflow


def touches(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM workflow_touch")).scalar_one())


def test_a_workflow_ends_when_its_last_job_has_ended(engine: Engine, running: Runner) -> None:
    with changed(engine) as connection:
        make_node(connection)
        done, active = (
            make_job(connection, status="successful"),
            make_job(connection, status="running"),
        )
        workflow = make_workflow(connection, done, active)
        touch_workflows(connection, [workflow])
    running.trigger(WORKFLOW)
    assert job_row(engine, workflow).status == "running"
    with changed(engine) as connection:
        connection.execute(
            text(
                "UPDATE job SET status = 'failed', outcome = 'failed_hosts',"
                " finished = dispatcher_now(), events_complete = true WHERE id = :id"
            ),
            {"id": active},
        )
        assert touch_workflows_of(connection, [active])
    running.trigger(WORKFLOW)
    row = job_row(engine, workflow)
    assert (row.status, row.outcome) == ("failed", "workflow_failed")
    assert touches(engine) == 0


def test_a_canceled_workflow_cancels_its_children_and_then_ends(
    engine: Engine, settings: Settings, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        pending, active = make_job(connection), make_job(connection, status="running")
        workflow = make_workflow(connection, pending, active, cancel_requested=True)
        connection.execute(
            text("INSERT INTO workflow_node (workflow_job_id, identifier) VALUES (:w, 'later')"),
            {"w": workflow},
        )
        touch_workflows(connection, [workflow])
    running.trigger(WORKFLOW)
    assert job_row(engine, pending).status == "canceled"
    row = job_row(engine, active)
    assert (row.status, row.cancel_requested) == ("running", True)
    assert submitted(settings, "n1") == [[(active, row.dispatch_id)]]
    assert job_row(engine, workflow).status == "running"
    with changed(engine) as connection:
        connection.execute(
            text(
                "UPDATE job SET status = 'canceled', outcome = 'canceled',"
                " finished = dispatcher_now() WHERE id = :id"
            ),
            {"id": active},
        )
        touch_workflows_of(connection, [active])
    running.trigger(WORKFLOW)
    assert job_row(engine, workflow).status == "canceled"
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT bool_or(do_not_run) FROM workflow_node"))


def test_a_pass_without_touches_is_fruitless_whatever_else_changes(
    engine: Engine, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        workflow = make_workflow(connection, make_job(connection, status="running"))
    assert running.trigger(WORKFLOW) == "complete"
    assert running.trigger(WORKFLOW) == "fruitless"
    with engine.begin() as connection:
        touch_workflows(connection, [workflow])
    assert running.trigger(WORKFLOW) == "complete", "a touch alone is enough"


def test_a_touch_that_comes_while_its_workflow_is_evaluated_stays(
    engine: Engine, running: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = workflow_manager.plan_workflows
    with changed(engine) as connection:
        make_node(connection)
        workflow = make_workflow(connection, make_job(connection, status="running"))
        touch_workflows(connection, [workflow])

    def touched_meanwhile(workflows: Sequence[Any]) -> Any:
        with engine.begin() as connection:
            touch_workflows(connection, [workflow])
        return plan(workflows)

    monkeypatch.setattr(workflow_manager, "plan_workflows", touched_meanwhile)
    running.trigger(WORKFLOW)
    assert touches(engine) == 1


def test_what_only_the_look_at_everything_finds_is_counted(engine: Engine, running: Runner) -> None:
    with changed(engine) as connection:
        workflow = make_workflow(connection, make_job(connection, status="successful"))
    running.trigger(WORKFLOW)
    assert job_row(engine, workflow).status == "running", "nobody touched it"
    with engine.begin() as connection:
        connection.execute(text("UPDATE manager_lease SET next_due = dispatcher_now()"))
        connection.execute(text("UPDATE workflow_sweep SET due = dispatcher_now()"))
    before = REGISTRY.get_sample_value("dispatcher_workflows_missed_total") or 0
    running.trigger(WORKFLOW)
    assert job_row(engine, workflow).status == "successful"
    assert REGISTRY.get_sample_value("dispatcher_workflows_missed_total") == before + 1


def test_a_workflow_whose_evaluation_raises_ends_in_error_and_the_others_go_on(
    engine: Engine, running: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = workflow_manager.plan_workflows
    with changed(engine) as connection:
        good, bad = (
            make_workflow(connection, make_job(connection, status="successful")) for _ in range(2)
        )
        touch_workflows(connection, [good, bad])

    def raising(workflows: Sequence[Any]) -> Any:
        if any(w.id == bad for w in workflows):
            raise ZeroDivisionError("boom")
        return plan(workflows)

    monkeypatch.setattr(workflow_manager, "plan_workflows", raising)
    for _ in range(3):
        running.trigger(WORKFLOW)
        with engine.begin() as connection:
            connection.execute(text("UPDATE job SET quarantined_until = dispatcher_now()"))
    assert job_row(engine, good).status == "successful"
    row = job_row(engine, bad)
    assert (row.status, row.outcome) == ("error", "internal")
    assert "boom" in row.explanation


# -- dependencies


def test_unprocessed_jobs_are_given_to_the_task_manager(engine: Engine, running: Runner) -> None:
    with changed(engine) as connection:
        jobs = [make_job(connection, dependencies_processed=False) for _ in range(130)]
    assert running.trigger(DEPENDENCY) == "complete"
    assert all(job_row(engine, job_id).dependencies_processed for job_id in jobs[::40])
    assert running.trigger(DEPENDENCY) == "complete", "its own writes are changes"
    assert running.trigger(DEPENDENCY) == "fruitless"


def test_each_job_gets_its_own_dependencies_and_none_that_has_failed(
    engine: Engine, running: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        update = make_job(connection, kind="project_update", status="running")
        failed = make_job(connection, kind="project_update", status="failed")
        first, second, third = (
            make_job(connection, dependencies_processed=False) for _ in range(3)
        )

    def plan(jobs: Sequence[UnprocessedJob], _: UpdateWorld) -> list[LinkDependencies]:
        wanted = {first: (update,), second: (failed,), third: ()}
        return [LinkDependencies(job.id, wanted[job.id]) for job in jobs]

    monkeypatch.setattr(dependency_manager, "plan_dependencies", plan)
    running.trigger(DEPENDENCY)
    with engine.connect() as connection:
        links = connection.execute(text("SELECT job_id, depends_on_id FROM job_dependency")).all()
    assert links == [(first, update)]
    assert [job_row(engine, j).dependencies_processed for j in (first, second, third)] == [
        True, False, True,
    ]  # fmt: skip
