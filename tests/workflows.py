"""Workflow templates and runs for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Engine, insert, text

from dispatcher.actions.decide_approval import decide_approval
from dispatcher.actions.launch_workflow import launch_workflow
from dispatcher.actions.save_schedule import create_schedule
from dispatcher.actions.save_workflow import EdgeSpec, NodeSpec, save_graph
from dispatcher.broker.messages import Manager
from dispatcher.db import tables as t
from dispatcher.db.engine import transaction
from schedulers.passes.manager_pass import Runner
from tests.factories import default_organization, make_job


def make_template(
    connection: Connection,
    name: str = "deploy",
    nodes: Sequence[NodeSpec] = (),
    edges: Sequence[EdgeSpec] = (),
    **columns: Any,
) -> int:
    """A workflow job template with this graph."""
    template_id = connection.execute(
        insert(t.workflow_job_template)
        .values(organization_id=default_organization(connection), name=name, **columns)
        .returning(t.workflow_job_template.c.id)
    ).scalar_one()
    save_graph(connection, template_id, nodes, edges)
    return int(template_id)


def asks(name: str, *, timeout: int = 0, converge: bool = False) -> NodeSpec:
    """A node that waits for somebody to approve."""
    return NodeSpec(
        name,
        "approval",
        approval_name=f"{name}?",
        approval_timeout=timeout,
        all_parents_must_converge=converge,
    )


def nests(name: str, template_id: int, **more: Any) -> NodeSpec:
    """A node that spawns another workflow."""
    return NodeSpec(name, "workflow_job_template", template_id, **more)


def launch(connection: Connection, template_id: int, **prompts: Any) -> int:
    """Launch a template; the id of its pending workflow job."""
    return launch_workflow(connection, template_id, prompts, principal="ann").job_id


def nodes_of(engine: Engine, workflow: int) -> dict[str, Any]:
    """Identifier → row of each node of a run, with its job's status."""
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT n.*, job.status FROM workflow_node n LEFT JOIN job ON job.id = n.job_id"
                " WHERE workflow_job_id = :id ORDER BY n.id"
            ),
            {"id": workflow},
        )
        return {row.identifier: row for row in rows}


def edges_of(engine: Engine, workflow: int) -> set[tuple[str, str, str]]:
    """The edges of a run, by identifier."""
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT above.identifier, below.identifier, kind FROM workflow_edge"
                " JOIN workflow_node above ON above.id = parent_id"
                " JOIN workflow_node below ON below.id = child_id"
                " WHERE above.workflow_job_id = :id"
            ),
            {"id": workflow},
        )
        return {(row[0], row[1], row[2]) for row in rows}


def moves(*steps: str) -> list[EdgeSpec]:
    """Edges from words: ``"a>b"`` success, ``"a!b"`` failure, ``"a-b"`` always."""
    kinds = {">": "success", "!": "failure", "-": "always"}
    return [
        (step.split(sign)[0], step.split(sign)[1], kind)
        for step in steps
        for sign, kind in kinds.items()
        if sign in step
    ]


def settle(running: Runner, *, most: int = 60) -> int:
    """Run the managers until neither has anything to do; how many rounds that took."""
    for number in range(most):
        results = {running.trigger(manager) for manager in (Manager.TASK, Manager.WORKFLOW)}
        if results == {"fruitless"}:
            return number
    raise AssertionError(f"the managers were still busy after {most} rounds")


def decide(engine: Engine, approval: int, approved: bool = True) -> None:
    """Somebody decides."""
    with transaction(engine) as connection:
        decide_approval(connection, approval, approved=approved, principal="bob")


def touches(engine: Engine) -> int:
    """How many touches are unanswered."""
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM workflow_touch")).scalar_one())


def make_workflow_objects(connection: Connection, job_template: int) -> dict[str, int]:
    """A workflow that spawns a template and asks, a run of it, a schedule: resource → number."""
    template = make_template(
        connection,
        "each",
        [NodeSpec("a", template_id=job_template), asks("b")],
        [("a", "b", "success")],
    )
    run = launch(connection, template)
    approval = make_job(connection, kind="approval", task_impact=0, preferred_groups=[])
    connection.execute(insert(t.approval).values(job_id=approval))
    node, step = (
        connection.execute(
            text(f"SELECT min(id) FROM {table} WHERE {column} = :id"), {"id": owner}
        ).scalar_one()
        for table, column, owner in (
            ("workflow_template_node", "workflow_job_template_id", template),
            ("workflow_node", "workflow_job_id", run),
        )
    )
    values = {"name": "each", "launches": "workflow_job_template", "template_id": template}
    schedule = create_schedule(connection, {**values, "rule_kind": "cron", "rule": "@daily"})
    return {
        "job_templates": job_template,
        "workflow_job_templates": template,
        "workflow_job_template_nodes": node,
        "workflow_jobs": run,
        "workflow_job_nodes": step,
        "workflow_approvals": approval,
        "schedules": schedule,
    }
