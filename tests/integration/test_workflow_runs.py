"""Workflows from launch to end on a real database: paths, artifacts, nesting, cancels, races, kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client import REGISTRY
from psycopg2.extras import Json
from sqlalchemy import Engine, event, insert, text
from sqlalchemy.exc import IntegrityError

from dispatcher.actions.cancel import cancel_job
from dispatcher.actions.relaunch_workflow import relaunch_workflow
from dispatcher.actions.save_workflow import NodeSpec
from dispatcher.broker.messages import Manager
from dispatcher.db import tables as t
from dispatcher.db.engine import transaction
from dispatcher.db.workflow_touches import touch_workflows
from dispatcher.errors import NotCancelable
from dispatcher.settings import Settings, environment
from schedulers.core.decision import Spawn
from schedulers.passes import apply_workflows
from schedulers.passes.manager_pass import Runner
from schedulers.passes.spawn_nodes import spawn
from tests.passes import changed, job_row, statuses
from tests.racing import at_once
from tests.roles import ROOT
from tests.workflows import (
    asks,
    decide,
    launch,
    make_template,
    moves,
    nests,
    nodes_of,
    settle,
    touches,
)

WORKFLOW = Manager.WORKFLOW


@pytest.fixture(autouse=True)
def nothing_was_missed(request: pytest.FixtureRequest) -> Iterator[None]:
    """What only the look at everything finds is counted; nothing here may be found by it."""
    before = REGISTRY.get_sample_value("dispatcher_workflows_missed_total") or 0
    yield
    assert (REGISTRY.get_sample_value("dispatcher_workflows_missed_total") or 0) == before


def launched(engine: Engine, template: int, **prompts: Any) -> int:
    with transaction(engine) as connection:
        return launch(connection, template, **prompts)


def leave(engine: Engine, job_id: int, **artifacts: Any) -> None:
    """The artifacts of a job."""
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO job_result (job_id, artifacts) VALUES (:job, :artifacts)"
                " ON CONFLICT (job_id) DO UPDATE SET artifacts = :artifacts"
            ),
            {"job": job_id, "artifacts": Json(artifacts)},
        )


def variables_of(engine: Engine, job_id: int) -> Any:
    with engine.connect() as connection:
        return connection.execute(
            text("SELECT extra_vars, prompts FROM workflow_input WHERE job_id = :id"),
            {"id": job_id},
        ).one()


def unfinished(engine: Engine) -> int:
    with engine.connect() as connection:
        count = text("SELECT count(*) FROM job WHERE status IN ('pending', 'waiting', 'running')")
        return int(connection.execute(count).scalar_one())


# -- paths


def test_a_workflow_is_walked_to_its_end(engine: Engine, running: Runner) -> None:
    nodes = [asks(name) for name in ("a", "b", "c", "d")] + [asks("all", converge=True)]
    with transaction(engine) as connection:
        template = make_template(connection, "t", nodes, moves("a>b", "a!c", "b>all", "d>all"))
    workflow = launched(engine, template)
    settle(running)
    assert job_row(engine, workflow).status == "running"
    first = nodes_of(engine, workflow)
    assert [name for name, node in first.items() if node.job_id] == ["a", "d"]
    assert all(node.attempt == 1 for node in first.values() if node.job_id)
    decide(engine, first["a"].job_id)
    settle(running)
    second = nodes_of(engine, workflow)
    assert (second["b"].status, second["c"].do_not_run, second["all"].job_id) == (
        "pending", True, None,
    )  # fmt: skip
    decide(engine, second["b"].job_id)
    decide(engine, second["d"].job_id, approved=False)
    settle(running)
    assert nodes_of(engine, workflow)["all"].do_not_run
    row = job_row(engine, workflow)
    assert (row.status, row.outcome) == ("failed", "workflow_failed")
    assert f"d (job {second['d'].job_id}: failed)" in row.explanation
    assert touches(engine) == 0


def test_a_failure_with_a_way_on_leaves_the_workflow_successful(
    engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        template = make_template(connection, "t", [asks("a"), asks("b")], moves("a!b"))
    workflow = launched(engine, template)
    settle(running)
    decide(engine, nodes_of(engine, workflow)["a"].job_id, approved=False)
    settle(running)
    decide(engine, nodes_of(engine, workflow)["b"].job_id)
    settle(running)
    assert job_row(engine, workflow).status == "successful"


# -- variables and nesting


def test_variables_of_a_nested_workflow_come_in_order_of_precedence(
    engine: Engine, running: Runner
) -> None:
    names = ("template", "node", "artifact", "workflow")
    with transaction(engine) as connection:
        inner = make_template(
            connection,
            "inner",
            [asks("x")],
            extra_vars=dict.fromkeys(names, "template"),
            prompts={"verbosity": 1},
            ask_variables_on_launch=True,
            ask_limit_on_launch=True,
        )
        prompts = {
            "extra_vars": dict.fromkeys(names[1:], "node"),
            "limit": "of the node",
        }
        outer = make_template(
            connection,
            "outer",
            [asks("a"), asks("b"), nests("n", inner, prompts=prompts)],
            moves("a-n", "b-n"),
            extra_vars={"workflow": "workflow"},
            prompts={"limit": "of the workflow"},
        )
    workflow = launched(engine, outer)
    settle(running)
    steps = nodes_of(engine, workflow)
    leave(engine, steps["a"].job_id, artifact="early", workflow="artifact", _per_host={"h": {}})
    leave(engine, steps["b"].job_id, artifact="late", workflow="artifact")
    decide(engine, steps["a"].job_id, approved=False)  # kept on the failure path
    decide(engine, steps["b"].job_id)
    settle(running)
    nested = nodes_of(engine, workflow)["n"].job_id
    stored = variables_of(engine, nested)
    assert stored.extra_vars == {
        "template": "template", "node": "node", "artifact": "late", "workflow": "workflow",
    }  # fmt: skip
    assert stored.prompts == {"verbosity": 1, "limit": "of the workflow"}
    row = job_row(engine, nested)
    assert (row.status, row.launch_type, row.launched_by) == ("running", "workflow", "ann")


def test_a_nested_workflow_ends_and_hands_its_artifacts_on(engine: Engine, running: Runner) -> None:
    with transaction(engine) as connection:
        inner = make_template(connection, "inner", [asks("x"), asks("y")])
        last = make_template(connection, "last", [asks("z")])
        outer = make_template(
            connection, "outer", [nests("n", inner), nests("end", last)], moves("n>end")
        )
    workflow = launched(engine, outer)
    settle(running)
    nested = nodes_of(engine, workflow)["n"].job_id
    for name, value in (("y", 1), ("x", 2)):
        job_id = nodes_of(engine, nested)[name].job_id
        leave(engine, job_id, which=value, **{name: True})
        decide(engine, job_id)
    settle(running)
    assert job_row(engine, nested).status == "successful"
    end = nodes_of(engine, workflow)["end"].job_id
    assert variables_of(engine, end).extra_vars == {"which": 2, "x": True, "y": True}


# -- nodes that cannot be started


def test_a_node_whose_template_is_deleted_meanwhile_fails_and_the_rest_goes_on(
    engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        gone = make_template(connection, "gone")
        template = make_template(
            connection,
            "t",
            [asks("a"), nests("lost", gone), asks("mend"), nests("unused", gone)],
            moves("a>lost", "lost!mend", "a!unused"),
        )
    workflow = launched(engine, template)
    settle(running)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM workflow_job_template"))
    decide(engine, nodes_of(engine, workflow)["a"].job_id)
    settle(running)
    nodes = nodes_of(engine, workflow)
    assert nodes["lost"].start_failure == "The workflow job template of this node was deleted."
    assert (nodes["unused"].do_not_run, nodes["unused"].start_failure) == (True, "")
    decide(engine, nodes["mend"].job_id)
    settle(running)
    assert job_row(engine, workflow).status == "successful", "the failure had a way on"


def test_a_node_that_cannot_be_started_fails_with_the_reason(
    engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        inner = make_template(connection, "inner", ask_inventory_on_launch=True)
        template = make_template(connection, "t", [nests("bad", inner), nests("good", inner)])
        # past the check of a save, as an inventory that was deleted since
        connection.execute(
            text(
                "UPDATE workflow_template_node SET prompts = '{\"inventory\": 77}'"
                " WHERE identifier = 'bad'"
            )
        )
    workflow = launched(engine, template)
    settle(running)
    assert nodes_of(engine, workflow)["bad"].start_failure == "inventory: no inventory 77"
    assert nodes_of(engine, workflow)["good"].status == "successful"
    row = job_row(engine, workflow)
    assert row.status == "failed"
    assert "bad (inventory: no inventory 77)" in row.explanation


def test_a_template_that_came_to_nest_in_itself_while_it_ran_is_refused_with_the_path(
    engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        inner = make_template(connection, "inner", [asks("x"), asks("y")], moves("x>y"))
        outer = make_template(connection, "outer", [nests("n", inner)])
        # past the check of a save, as an operator's own SQL would be
        connection.execute(
            text(
                "UPDATE workflow_template_node SET spawns = 'workflow_job_template',"
                " template_id = :outer, approval_name = '' WHERE identifier = 'y'"
            ),
            {"outer": outer},
        )
    workflow = launched(engine, outer)
    settle(running)
    nested = nodes_of(engine, workflow)["n"].job_id
    decide(engine, nodes_of(engine, nested)["x"].job_id)
    settle(running)
    assert nodes_of(engine, nested)["y"].start_failure == (
        "workflow: would be nested in itself: outer → inner → outer"
    )
    assert job_row(engine, workflow).status == "failed"


# -- cancel


def test_a_cancel_reaches_the_innermost_workflow(engine: Engine, running: Runner) -> None:
    with transaction(engine) as connection:
        template = make_template(connection, "t0", [asks("x"), asks("later")], moves("x>later"))
        for depth in (1, 2, 3):
            template = make_template(connection, f"t{depth}", [nests("n", template), asks("x")])
    workflow = launched(engine, template)
    settle(running)
    assert statuses(engine) == {"running": 4, "pending": 4}
    with transaction(engine) as connection:
        owed = cancel_job(connection, workflow).owed
    assert owed.wakes == {WORKFLOW}
    settle(running)
    assert statuses(engine) == {"canceled": 8}
    with engine.connect() as connection:
        open_ = text("SELECT count(*) FROM workflow_node WHERE job_id IS NULL AND NOT do_not_run")
        assert connection.scalar(open_) == 0
    assert touches(engine) == 0


def test_a_workflow_that_never_began_is_canceled_with_all_of_its_nodes(
    engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        inner = make_template(connection, "inner", [asks("x")])
        outer = make_template(connection, "outer", [nests("n", inner)])
    first, second = launched(engine, outer), launched(engine, outer)
    with transaction(engine) as connection:
        cancel_job(connection, first)
    assert nodes_of(engine, first)["n"].do_not_run
    for manager in (Manager.TASK, WORKFLOW):
        running.trigger(manager)
    with transaction(engine) as connection:
        cancel_job(connection, second)
    nested = nodes_of(engine, second)["n"].job_id
    assert job_row(engine, nested).status == "pending"
    running.trigger(WORKFLOW)
    settle(running)
    assert statuses(engine) == {"canceled": 3}
    assert nodes_of(engine, nested)["x"].do_not_run


def test_a_nested_workflow_that_begins_while_it_is_canceled_from_outside_spawns_nothing(
    engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        inner = make_template(connection, "inner", [asks("x")])
        outer = make_template(connection, "outer", [nests("n", inner)])
    workflow = launched(engine, outer)
    for manager in (Manager.TASK, WORKFLOW, Manager.TASK):
        running.trigger(manager)
    with transaction(engine) as connection:
        cancel_job(connection, workflow)
    running.trigger(WORKFLOW)  # both are in its window
    settle(running)
    assert statuses(engine) == {"canceled": 2}


def test_a_workflow_that_is_canceled_between_plan_and_apply_spawns_nothing(
    engine: Engine, running: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with transaction(engine) as connection:
        template = make_template(connection, "t", [asks("a")])
    workflow = launched(engine, template)
    running.trigger(Manager.TASK)
    lock = apply_workflows.lock

    def canceled_before(connection: Any, ids: Any) -> Any:
        monkeypatch.undo()
        with transaction(engine) as other:
            cancel_job(other, workflow)
        return lock(connection, ids)

    monkeypatch.setattr(apply_workflows, "lock", canceled_before)
    running.trigger(WORKFLOW)
    assert nodes_of(engine, workflow)["a"].job_id is None
    assert touches(engine) == 1, "the cancel's own touch is not answered yet"
    settle(running)
    assert statuses(engine) == {"canceled": 1}


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_end_and_cancels_at_random_times_leave_no_unfinished_child(
    engine: Engine, running: Runner, seed: int
) -> None:
    chance = random.Random(seed)
    with transaction(engine) as connection:
        inner = make_template(connection, "inner", [asks("x"), asks("y")], moves("x>y"))
        doomed = make_template(connection, "doomed", [asks("x")])
        templates = []
        for number in range(8):
            names = [f"n{i}" for i in range(chance.randint(1, 12))]
            nodes = [
                chance.choice(
                    [asks(name, converge=chance.random() < 0.4), asks(name), nests(name, inner), nests(name, doomed)]
                )
                for name in names
            ]  # fmt: skip
            steps = {
                f"{names[a]}{chance.choice('>!-')}{names[b]}"
                for b in range(1, len(names))
                for a in chance.sample(range(b), min(b, chance.randint(0, 3)))
            }
            templates.append(make_template(connection, f"t{number}", nodes, moves(*sorted(steps))))
    workflows = [launched(engine, template) for template in templates]
    canceled = set()
    for turn in range(200):
        for manager in chance.sample([Manager.TASK, WORKFLOW], 2):
            running.trigger(manager)
        if turn == 3:
            with engine.begin() as connection:
                connection.execute(
                    text("DELETE FROM workflow_job_template WHERE id = :id"), {"id": doomed}
                )
        with engine.connect() as connection:
            pending = list(
                connection.scalars(
                    text("SELECT id FROM job WHERE kind = 'approval' AND status = 'pending'")
                )
            )
        for approval in chance.sample(pending, min(len(pending), 4)):
            with transaction(engine) as connection:
                if chance.random() < 0.1:
                    cancel_job(connection, approval)
                    continue
            decide(engine, approval, chance.random() < 0.6)
        if chance.random() < 0.2:
            victim = chance.choice(workflows)
            try:
                with transaction(engine) as connection:
                    cancel_job(connection, victim)
                canceled.add(victim)
            except NotCancelable:
                pass
        if not unfinished(engine):
            break
    settle(running)
    assert unfinished(engine) == 0
    assert touches(engine) == 0
    assert all(job_row(engine, each).status == "canceled" for each in canceled)
    with engine.connect() as connection:
        mixed = connection.scalar(
            text(
                "SELECT count(*) FROM workflow_node n JOIN job w ON w.id = workflow_job_id"
                " JOIN job child ON child.id = n.job_id WHERE child.finished > w.finished"
            )
        )
    assert mixed == 0, "no child ends after its workflow"


# -- relaunched


def test_a_workflow_goes_on_from_its_failed_node_with_the_artifacts_of_before(
    engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        inner = make_template(connection, "inner", [asks("x")])
        template = make_template(
            connection, "t", [asks("a"), asks("b"), nests("n", inner)], moves("a>b", "b>n")
        )
    first = launched(engine, template)
    settle(running)
    done = nodes_of(engine, first)["a"].job_id
    leave(engine, done, kept="yes")
    decide(engine, done)
    settle(running)
    decide(engine, nodes_of(engine, first)["b"].job_id, approved=False)
    settle(running)
    assert job_row(engine, first).status == "failed"
    with transaction(engine) as connection:
        again = relaunch_workflow(connection, first, principal="bob", from_failed=True).job_id
    settle(running)
    nodes = nodes_of(engine, again)
    assert nodes["a"].job_id == done
    decide(engine, nodes["b"].job_id)
    settle(running)
    nested = nodes_of(engine, again)["n"].job_id
    assert variables_of(engine, nested).extra_vars == {"kept": "yes"}
    decide(engine, nodes_of(engine, nested)["x"].job_id)
    settle(running)
    assert job_row(engine, again).status == "successful"
    assert job_row(engine, first).status == "failed", "final states never change"


# -- races and kills


def begun(engine: Engine, running: Runner, template: int) -> tuple[int, list[Spawn]]:
    """A running workflow that nobody has evaluated, and the spawns of its root nodes."""
    workflow = launched(engine, template)
    running.trigger(Manager.TASK)
    roots = [Spawn(workflow, n.id, 1) for n in nodes_of(engine, workflow).values()]
    return workflow, roots


def test_two_managers_that_spawn_the_same_nodes_make_each_job_once(
    engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        inner = make_template(connection, "inner", [asks("x")])
        template = make_template(connection, "t", [asks("a"), asks("b"), nests("n", inner)])
    workflow, roots = begun(engine, running, template)

    def apply(decisions: Sequence[Spawn]) -> int:
        with transaction(engine, lock_timeout=10) as connection:
            locked = apply_workflows.lock(connection, [workflow])
            return spawn(connection, decisions, locked.going_on).counts["spawn"]

    assert sorted(at_once([lambda: apply(roots)] * 3)) == [0, 0, 3]
    assert apply([Spawn(workflow, d.workflow_node_id, 2) for d in roots]) == 0
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT attempt, job_id FROM workflow_spawn")).all()
        assert [row.attempt for row in rows] == [1, 1, 1]
        assert {row.job_id for row in rows} == {
            node.job_id for node in nodes_of(engine, workflow).values()
        }


def test_the_schema_refuses_a_second_job_of_one_attempt(engine: Engine, running: Runner) -> None:
    with transaction(engine) as connection:
        template = make_template(connection, "t", [asks("a")])
    workflow = launched(engine, template)
    settle(running)
    node = nodes_of(engine, workflow)["a"]
    other = launched(engine, template)
    with pytest.raises(IntegrityError), engine.begin() as connection:
        connection.execute(
            insert(t.workflow_spawn).values(workflow_node_id=node.id, attempt=1, job_id=other)
        )


KILLED = """
import os, signal
from dispatcher.broker.messages import Manager
from dispatcher.settings import load
from schedulers.passes import apply_workflows
from schedulers.passes.works import make_runner
apply_workflows.delete_touches = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
make_runner(load(), name="to be killed").trigger(Manager.WORKFLOW)
"""


def test_a_manager_that_is_killed_between_spawn_and_commit_spawns_nothing_and_loses_nothing(
    engine: Engine, settings: Settings, running: Runner
) -> None:
    with transaction(engine) as connection:
        template = make_template(connection, "t", [asks("a"), asks("b")])
    workflow, _ = begun(engine, running, template)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED],
        cwd=ROOT,
        env={**os.environ, **environment(settings), "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert statuses(engine) == {"running": 1}
    assert touches(engine) == 1
    settle(running)
    assert [n.attempt for n in nodes_of(engine, workflow).values()] == [1, 1]
    assert statuses(engine) == {"running": 1, "pending": 2}


def test_the_end_of_a_child_does_not_wait_for_a_manager_that_holds_its_workflow(
    engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        template = make_template(connection, "t", [asks("a")])
    workflow = launched(engine, template)
    settle(running)
    approval = nodes_of(engine, workflow)["a"].job_id
    with transaction(engine) as connection:
        apply_workflows.lock(connection, [workflow])
        decide(engine, approval)  # its touch refers to the locked row
    assert touches(engine) == 1


# -- as many statements for many as for one


@contextmanager
def counted(running: Runner) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(running.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(running.engine, "before_cursor_execute", note)


def test_a_pass_takes_as_many_statements_for_two_hundred_workflows_as_for_one(
    engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        inner = make_template(connection, "inner", [asks("x")])
        nodes = [asks("a"), asks("b"), nests("n", inner), NodeSpec("m", "workflow_job_template", inner)]  # fmt: skip
        template = make_template(connection, "t", nodes, moves("a>b", "a!m"), allow_simultaneous=True)  # fmt: skip
    running.trigger(WORKFLOW)  # the first look at everything
    taken: dict[str, list[int]] = {"spawn": [], "go on": [], "nothing": [], "cancel": [], "end": []}
    for count in (1, 200):
        with transaction(engine) as connection:
            workflows = [launch(connection, template) for _ in range(count)]
        running.trigger(Manager.TASK)

        def one_pass(name: str) -> None:
            with counted(running) as seen:
                assert running.trigger(WORKFLOW) == "complete"
            taken[name].append(len(seen))

        one_pass("spawn")
        approvals = [nodes_of(engine, w)["a"].job_id for w in workflows]
        with transaction(engine) as connection:
            connection.execute(
                text(
                    "UPDATE job SET status = 'successful', outcome = 'successful',"
                    " finished = dispatcher_now(), events_complete = true"
                    " WHERE id = ANY(CAST(:ids AS bigint[]))"
                ),
                {"ids": approvals},
            )
            touch_workflows(connection, workflows)
        one_pass("go on")
        with changed(engine) as connection:
            touch_workflows(connection, workflows)
        one_pass("nothing")
        with transaction(engine) as connection:
            connection.execute(
                text(
                    "UPDATE job SET cancel_requested = true WHERE id = ANY(CAST(:ids AS bigint[]))"
                ),
                {"ids": workflows},
            )
            touch_workflows(connection, workflows)
        one_pass("cancel")
        one_pass("end")
        settle(running)
        assert unfinished(engine) == 0
    assert all(one == many for one, many in taken.values()), taken
