"""The WorkflowManager: running workflows with nothing to do, and the spawning of many nodes.

Whole passes, lease to release, on an embedded PostgreSQL and Valkey. "Nothing to do" is measured
twice: as it is (nothing was touched), and with every workflow touched for nothing, so that each of
them is read, evaluated and left alone.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

from sqlalchemy import Connection, Engine, insert, text

from benchmarks.figures import Figure
from benchmarks.servers import managers
from dispatcher.actions.launch_workflow import WorkflowLaunch, launch_workflows
from dispatcher.actions.save_workflow import NodeSpec, save_graph
from dispatcher.broker.messages import Manager
from dispatcher.db import tables as t
from dispatcher.db.workflow_rows import new_ids
from schedulers.passes.manager_pass import Runner

WORKFLOWS = 1_000
NODES = 10
SPAWNED = 1_000
ROUNDS = 5


def measure() -> list[Figure]:
    """Milliseconds of a pass over 1,000 running workflows; seconds of one that spawns 1,000 nodes."""
    with managers() as (engine, runner):
        fruitless, touched = _nothing_to_do(engine, runner)
    with managers() as (engine, runner):
        spawns = [_spawn(engine, runner, number) for number in range(ROUNDS)]
    return [
        _figure("workflows_1000_nothing_touched", fruitless, "ms"),
        _figure("workflows_1000_nothing_to_do", touched, "ms"),
        _figure("workflows_spawn_1000_nodes", spawns, "s"),
    ]


def _figure(name: str, times: list[float], unit: str) -> Figure:
    factor = 1000 if unit == "ms" else 1
    scaled = sorted(time * factor for time in times)
    return Figure(
        name, median(scaled), unit, f"{len(scaled)} rounds, {scaled[0]:.3g} to {scaled[-1]:.3g}"
    )


def _nothing_to_do(engine: Engine, runner: Runner) -> tuple[list[float], list[float]]:
    with engine.begin() as connection:
        workflows = _begin(connection, template(connection, "chain", chain=True), WORKFLOWS)
    _settle(runner)
    fruitless, touched = [], []
    for _ in range(ROUNDS):
        fruitless.append(_timed(runner))
        with engine.begin() as connection:
            connection.execute(
                text(
                    "INSERT INTO workflow_touch (workflow_job_id)"
                    " SELECT unnest(CAST(:ids AS bigint[]))"
                ),
                {"ids": workflows},
            )
        touched.append(_timed(runner))
    return fruitless, touched


def _spawn(engine: Engine, runner: Runner, number: int) -> float:
    """One pass in which 100 workflows get 10 jobs each, of a job template."""
    with engine.begin() as connection:
        wide = template(connection, f"wide {number}", chain=False)
        _begin(connection, wide, SPAWNED // NODES)
        before = _jobs(connection)
    time = _timed(runner)
    with engine.connect() as connection:
        assert _jobs(connection) == before + SPAWNED
    return time


def _timed(runner: Runner) -> float:
    began = perf_counter()
    runner.trigger(Manager.WORKFLOW)
    return perf_counter() - began


def _settle(runner: Runner) -> None:
    while runner.trigger(Manager.WORKFLOW) != "fruitless":
        pass


def _jobs(connection: Connection) -> int:
    return int(connection.execute(text("SELECT count(*) FROM job")).scalar_one())


def _begin(connection: Connection, template: int, count: int) -> list[int]:
    """Launch a template many times; the jobs run, as after a pass of the TaskManager."""
    ids = new_ids(connection, count)
    launch_workflows(connection, [WorkflowLaunch(template, {}, "bench") for _ in ids], ids=ids)
    connection.execute(
        text(
            "UPDATE job SET status = 'running', started = dispatcher_now()"
            " WHERE id = ANY(CAST(:ids AS bigint[]))"
        ),
        {"ids": ids},
    )
    connection.execute(
        text("INSERT INTO workflow_touch (workflow_job_id) SELECT unnest(CAST(:ids AS bigint[]))"),
        {"ids": ids},
    )
    return ids


def template(connection: Connection, name: str, *, chain: bool) -> int:
    """Ten nodes that run a job template, one after another or all at once."""
    organization = connection.execute(text("SELECT min(id) FROM organization")).scalar_one()
    named = {"organization_id": organization, "name": name}
    project = connection.execute(
        insert(t.project)
        .values(**named, scm_type="git", scm_url="https://git.example/x.git")
        .returning(t.project.c.id)
    ).scalar_one()
    inventory = connection.execute(
        insert(t.inventory).values(**named, host_count=1).returning(t.inventory.c.id)
    ).scalar_one()
    job_template = connection.execute(
        insert(t.job_template)
        .values(
            **named,
            project_id=project,
            inventory_id=inventory,
            playbook="site.yml",
            allow_simultaneous=True,
        )
        .returning(t.job_template.c.id)
    ).scalar_one()
    workflow = connection.execute(
        insert(t.workflow_job_template)
        .values(**named, allow_simultaneous=True)
        .returning(t.workflow_job_template.c.id)
    ).scalar_one()
    nodes = [NodeSpec(f"step {n}", "job_template", job_template) for n in range(NODES)]
    edges = [(f"step {n}", f"step {n + 1}", "success") for n in range(NODES - 1)]
    save_graph(connection, workflow, nodes, edges if chain else [])
    return int(workflow)
