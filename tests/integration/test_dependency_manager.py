"""The DependencyManager on a real database: updates launched, shared, linked, and in time."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, insert, select, text

from dispatcher.actions.launch_update import launch_inventory_update
from dispatcher.broker.messages import Manager
from dispatcher.db import tables as t
from schedulers.passes.manager_pass import Runner
from tests.factories import finish_job, make_job, make_node
from tests.passes import changed, job_row
from tests.templates import make_inventory, make_project, make_source, updated

DEPENDENCY, TASK = Manager.DEPENDENCY, Manager.TASK


def _job(
    connection: Connection, project: int, branch: str = "", inventory: int | None = None
) -> int:
    """An unprocessed playbook job of a project."""
    job_id = make_job(
        connection, dependencies_processed=False, project_id=project, inventory_id=inventory,
        inputs={"inventory": None},
    )  # fmt: skip
    connection.execute(
        insert(t.job_project).values(job_id=job_id, scm_type="git", scm_branch=branch)
    )
    return job_id


def _links(engine: Engine) -> dict[int, list[int]]:
    with engine.connect() as connection:
        rows = connection.execute(
            select(t.job_dependency).order_by(t.job_dependency.c.depends_on_id)
        )
        found: dict[int, list[int]] = {}
        for row in rows:
            found.setdefault(row.job_id, []).append(row.depends_on_id)
        return found


def test_jobs_of_one_project_share_an_update_and_those_of_others_do_not(
    engine: Engine, running: Runner
) -> None:
    with changed(engine) as connection:
        one = make_project(connection, update_on_launch=True)
        other = make_project(connection, update_on_launch=True)
        jobs = [_job(connection, project) for project in (one, one, other)]
        branch = _job(connection, one, "b")
    assert running.trigger(DEPENDENCY) == "complete"
    links = _links(engine)
    assert links[jobs[0]] == links[jobs[1]]
    assert len({links[job][0] for job in (*jobs, branch)}) == 3
    update = job_row(engine, links[jobs[0]][0])
    assert (update.kind, update.launch_type, update.status) == (
        "project_update",
        "dependency",
        "pending",
    )
    with changed(engine) as connection:
        late = _job(connection, one)
    running.trigger(DEPENDENCY)
    assert _links(engine)[late] == links[jobs[0]], "one that is still pending is shared"


def test_an_inventory_source_waits_for_its_project_and_the_job_for_both(
    engine: Engine, running: Runner
) -> None:
    with changed(engine) as connection:
        project, scripts = make_project(connection), make_project(connection)
        updated(connection, project)
        inventory = make_inventory(connection)
        source = make_source(connection, inventory, scripts, update_on_launch=True)
        make_source(connection, inventory, scripts)
        job = _job(connection, project, inventory=inventory)
    running.trigger(DEPENDENCY)
    links = _links(engine)
    (update,) = links[job]
    row = job_row(engine, update)
    assert (row.kind, row.inventory_source_id, row.dependencies_processed) == (
        "inventory_update",
        source,
        True,
    )
    (of_project,) = links[update]
    assert job_row(engine, of_project).project_id == scripts


def test_an_inventory_update_that_people_launch_gets_its_project_first(
    engine: Engine, running: Runner
) -> None:
    with changed(engine) as connection:
        scripts = make_project(connection)
        source = make_source(connection, make_inventory(connection), scripts)
        job = launch_inventory_update(connection, source).job_id
    running.trigger(DEPENDENCY)
    (of_project,) = _links(engine)[job]
    assert job_row(engine, of_project).project_id == scripts


def test_a_fresh_update_is_not_repeated_and_a_stale_or_failed_one_is(
    engine: Engine, running: Runner
) -> None:
    with changed(engine) as connection:
        fresh, stale, failed = (
            make_project(connection, update_on_launch=True, cache_timeout=60) for _ in range(3)
        )
        updated(connection, fresh)
        old = text("dispatcher_now() - interval '61 seconds'")
        updated(connection, stale, finished=old)
        updated(connection, failed, finished=old)
        bad = make_job(connection, kind="project_update", status="failed", project_id=failed)
        connection.execute(insert(t.job_project).values(job_id=bad, scm_type="git"))
        jobs = [_job(connection, project) for project in (fresh, stale, failed)]
    running.trigger(DEPENDENCY)
    links = _links(engine)
    assert [job in links for job in jobs] == [False, True, True]
    assert all(job_row(engine, job).dependencies_processed for job in jobs)


def test_an_update_that_is_being_canceled_is_not_shared(engine: Engine, running: Runner) -> None:
    with changed(engine) as connection:
        make_node(connection)
        project = make_project(connection, update_on_launch=True)
        doomed = make_job(
            connection, kind="project_update", status="running", project_id=project,
            cancel_requested=True,
        )  # fmt: skip
        connection.execute(insert(t.job_project).values(job_id=doomed, scm_type="git"))
        job = _job(connection, project)
    running.trigger(DEPENDENCY)
    (update,) = _links(engine)[job]
    assert update != doomed


def test_one_failing_update_fails_only_its_dependents(engine: Engine, running: Runner) -> None:
    with changed(engine) as connection:
        one, other = (make_project(connection, update_on_launch=True) for _ in range(2))
        doomed, spared = _job(connection, one), _job(connection, other)
    running.trigger(DEPENDENCY)
    with changed(engine) as connection:
        finish_job(connection, _links(engine)[doomed][0], "failed")
    running.trigger(TASK)
    assert job_row(engine, doomed).outcome == "dependency"
    assert "Previous Task Failed" in job_row(engine, doomed).explanation
    assert job_row(engine, spared).status == "pending"


def test_a_job_whose_project_was_deleted_is_not_stuck(engine: Engine, running: Runner) -> None:
    with changed(engine) as connection:
        project = make_project(connection, update_on_launch=True)
        job = _job(connection, project)
        connection.execute(t.project.delete().where(t.project.c.id == project))
    running.trigger(DEPENDENCY)
    assert job_row(engine, job).dependencies_processed
