"""Workflow nodes that spawn job templates, updates and slices; and whose end touches a workflow."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from dispatcher.actions.cancel import cancel_job
from dispatcher.actions.decide_approval import decide_approval
from dispatcher.actions.launch_template import TemplateLaunch, launch_job_templates
from dispatcher.actions.launched import Launched
from dispatcher.actions.save_workflow import NodeSpec
from dispatcher.broker.messages import Manager, Owed
from dispatcher.db import job_moves
from dispatcher.db.engine import transaction
from dispatcher.db.workflow_touches import touch_workflows_of
from dispatcher.domain.outcome import Outcome
from schedulers.core.decision import Fail, FinishLost, Strike
from schedulers.passes import apply, apply_recovery
from schedulers.passes.manager_pass import Runner
from tests import templates
from tests.factories import make_job, make_node
from tests.passes import job_row
from tests.workflows import asks, launch, make_template, moves, nodes_of, settle, touches
from workers.finish import after_final

WORKFLOW = Manager.WORKFLOW


def site(connection: Connection, **columns: Any) -> int:
    """A job template with content and three hosts."""
    project = templates.make_project(connection)
    templates.updated(connection, project)
    inventory = templates.make_inventory(connection, ["a", "b", "c"])
    return templates.make_template(connection, project, inventory, **columns)


def runs(name: str, template: int, **prompts: Any) -> NodeSpec:
    return NodeSpec(name, "job_template", template, prompts=prompts)


def input_of(engine: Engine, job_id: int) -> Any:
    with engine.connect() as connection:
        return connection.execute(
            text("SELECT * FROM job_input WHERE job_id = :id"), {"id": job_id}
        ).one()


def end(engine: Engine, job_id: int, **artifacts: Any) -> None:
    """A spawned job ends well, as if a node had run it."""
    with transaction(engine) as connection:
        connection.execute(
            text(
                "UPDATE job SET status = 'successful', outcome = 'successful',"
                " finished = dispatcher_now(), events_complete = true WHERE id = :id"
            ),
            {"id": job_id},
        )
        if artifacts:
            connection.execute(
                text(
                    "INSERT INTO job_result (job_id, artifacts) VALUES (:id, '{\"artifact\": 1}')"
                ),
                {"id": job_id},
            )
        touch_workflows_of(connection, [job_id])


def test_a_job_of_a_node_gets_its_variables_and_prompts_in_order_of_precedence(
    engine: Engine, running: Runner
) -> None:
    names = ("template", "node", "artifact", "workflow")
    with transaction(engine) as connection:
        first = site(connection)
        second = site(
            connection,
            extra_vars=dict.fromkeys(names, "template"),
            ask_variables_on_launch=True,
            ask_limit_on_launch=True,
        )
        node = runs("n", second, limit="a", extra_vars=dict.fromkeys(names[1:], "node"), forks=9)
        template = make_template(
            connection,
            "w",
            [runs("first", first), node],
            moves("first>n"),
            extra_vars={"workflow": "workflow"},
            prompts={"limit": "b"},
        )
        workflow = launch(connection, template)
    settle(running)
    end(engine, nodes_of(engine, workflow)["first"].job_id, artifact=1, _per_host={"a": {}})
    settle(running)
    job_id = nodes_of(engine, workflow)["n"].job_id
    given = input_of(engine, job_id)
    assert given.extra_vars == {
        "template": "template", "node": "node", "artifact": 1, "workflow": "workflow",
    }  # fmt: skip
    assert given.limit_pattern == "b"
    assert given.forks == 0, "the template does not ask for forks"
    row = job_row(engine, job_id)
    assert (row.kind, row.launch_type, row.launched_by) == ("playbook", "workflow", "ann")
    first_input = input_of(engine, nodes_of(engine, workflow)["first"].job_id)
    assert first_input.limit_pattern == "", "the first template does not ask for a limit"
    assert first_input.extra_vars == {"workflow": "workflow"}, "variables come asked for or not"


def test_jobs_that_cannot_be_made_fail_their_nodes_with_the_reason(
    engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        good = site(connection)
        bare = templates.make_template(connection, None, None)
        moody = site(connection, ask_inventory_on_launch=True)
        nodes = [
            runs("bare", bare),
            runs("moody", moody),
            runs("good", good),
            asks("mend"),
        ]
        template = make_template(connection, "w", nodes, moves("bare!mend"))
        # past the check of a save, as an inventory that was deleted since
        connection.execute(
            text(
                "UPDATE workflow_template_node SET prompts = '{\"inventory\": 987}'"
                " WHERE identifier = 'moody'"
            )
        )
        workflow = launch(connection, template)
    settle(running)
    made = nodes_of(engine, workflow)
    assert "the template has no project" in made["bare"].start_failure
    assert "there is no inventory 987" in made["moody"].start_failure
    assert made["good"].status == "pending"
    assert made["mend"].status == "pending"
    assert touches(engine) == 0


def test_a_job_template_deleted_meanwhile_fails_its_node(engine: Engine, running: Runner) -> None:
    with transaction(engine) as connection:
        gone = site(connection)
        template = make_template(connection, "w", [asks("a"), runs("n", gone)], moves("a-n"))
        workflow = launch(connection, template)
    settle(running)
    with transaction(engine) as connection:
        connection.execute(text("DELETE FROM job_template"))
        approval = nodes_of(engine, workflow)["a"].job_id
        decide_approval(connection, approval, approved=True, principal="bob")
    settle(running)
    node = nodes_of(engine, workflow)["n"]
    assert node.start_failure == "The job template of this node was deleted."
    assert job_row(engine, workflow).status == "failed"


def test_nodes_update_projects_and_inventories(engine: Engine, running: Runner) -> None:
    with transaction(engine) as connection:
        project = templates.make_project(connection)
        inventory = templates.make_inventory(connection)
        source = templates.make_source(connection, inventory, project)
        nodes = [NodeSpec("p", "project", project), NodeSpec("s", "inventory_source", source)]
        template = make_template(connection, "w", nodes)
        workflow = launch(connection, template)
    settle(running)
    made = {name: job_row(engine, n.job_id) for name, n in nodes_of(engine, workflow).items()}
    assert (made["p"].kind, made["p"].project_id) == ("project_update", project)
    assert (made["s"].kind, made["s"].inventory_source_id) == ("inventory_update", source)
    assert {row.launched_by for row in made.values()} == {"ann"}


def test_a_sliced_template_runs_its_hosts_in_parts(engine: Engine, running: Runner) -> None:
    with transaction(engine) as connection:
        template = site(connection, job_slice_count=2, ask_limit_on_launch=True)
        launches = [
            TemplateLaunch(template, {"limit": limit}, "ann", variables={"x": 1})
            for limit in ("", "a")
        ]
        sliced, single = launch_job_templates(connection, launches)
    assert isinstance(sliced, Launched)
    assert isinstance(single, Launched)
    assert job_row(engine, single.job_id).kind == "playbook", "one host is not sliced"
    settle(running)
    workflow = job_row(engine, sliced.job_id)
    assert (workflow.kind, workflow.status, workflow.slice_count) == ("workflow", "running", 2)
    jobs = [job_row(engine, n.job_id) for n in nodes_of(engine, sliced.job_id).values()]
    assert [(j.kind, j.slice_number, j.slice_count) for j in jobs] == [
        ("playbook", 1, 2), ("playbook", 2, 2),
    ]  # fmt: skip
    assert [j.task_impact for j in jobs] == [3, 2], "two hosts and one"
    assert all(j.allow_simultaneous for j in jobs)
    assert all(input_of(engine, j.id).extra_vars == {"x": 1} for j in jobs)
    for job in jobs:
        end(engine, job.id)
    settle(running)
    assert job_row(engine, sliced.job_id).status == "successful"


def test_a_sliced_template_in_a_node_is_a_workflow_in_it(engine: Engine, running: Runner) -> None:
    with transaction(engine) as connection:
        template = make_template(connection, "w", [runs("n", site(connection, job_slice_count=9))])
        workflow = launch(connection, template)
    settle(running)
    nested = nodes_of(engine, workflow)["n"].job_id
    slices = nodes_of(engine, nested)
    assert len(slices) == 3, "no more than there are hosts"
    for node in slices.values():
        end(engine, node.job_id)
    settle(running)
    assert job_row(engine, workflow).status == "successful"


# -- whatever ends a child touches its workflow, in the same transaction


def _finish(connection: Connection, job_id: int) -> Owed:
    dispatch = connection.scalar(text("SELECT dispatch_id FROM job WHERE id = :id"), {"id": job_id})
    done = job_moves.finish(
        connection, job_id, dispatch_id=dispatch, outcome=Outcome.SUCCESSFUL, explanation=""
    )
    assert done is not None
    return after_final(connection, [done]).owed


def _lose(connection: Connection, job_id: int) -> Owed:
    dispatch = connection.scalar(text("SELECT dispatch_id FROM job WHERE id = :id"), {"id": job_id})
    return apply_recovery.finish_lost(connection, [FinishLost(job_id, dispatch, "n1")]).owed


def _refuse(connection: Connection, job_id: int) -> Owed:
    return apply.fail_jobs(connection, [Fail(job_id, Outcome.DEPENDENCY, "")]).owed


def _strike(connection: Connection, job_id: int) -> Owed:
    strikes = [Strike(job_id, "boom")]
    return apply.strike_jobs(connection, strikes, max_strikes=1, manager=Manager.TASK).owed


def _cancel(connection: Connection, job_id: int) -> Owed:
    return cancel_job(connection, job_id).owed


ENDS = {
    "finish": ("running", _finish),
    "node lost": ("running", _lose),
    "refuse": ("pending", _refuse),
    "strike": ("pending", _strike),
    "cancel before the start": ("pending", _cancel),
    "cancel before the claim": ("waiting", _cancel),
}


@pytest.mark.parametrize("name", ENDS)
def test_every_end_of_a_child_touches_its_workflow_and_wakes_its_manager(
    engine: Engine, running: Runner, name: str
) -> None:
    status, ends = ENDS[name]
    with engine.begin() as connection:
        make_node(connection)
        child = make_job(connection, status=status)
        workflow = make_job(connection, kind="workflow", status="running")
        connection.execute(
            text(
                "INSERT INTO workflow_node (workflow_job_id, identifier, job_id)"
                " VALUES (:workflow, 'n', :job)"
            ),
            {"workflow": workflow, "job": child},
        )
        owed = ends(connection, child)
    assert touches(engine) == 1
    assert WORKFLOW in owed.wakes
    running.trigger(WORKFLOW)
    assert job_row(engine, workflow).finished is not None
