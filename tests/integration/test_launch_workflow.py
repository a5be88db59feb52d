"""Workflow jobs as actions make them: launched, sliced, relaunched."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, insert, text

from dispatcher.actions.launch_slices import SlicedLaunch, launch_sliced
from dispatcher.actions.launch_workflow import WorkflowLaunch, launch_workflow, launch_workflows
from dispatcher.actions.launched import Launched
from dispatcher.actions.relaunch_workflow import relaunch_workflow
from dispatcher.actions.save_workflow import save_graph
from dispatcher.broker.messages import Manager
from dispatcher.db import tables as t
from dispatcher.db.change import read_counter
from dispatcher.db.engine import transaction
from dispatcher.errors import Conflict, InvalidRequest, NotFound
from tests.factories import default_organization, make_job
from tests.passes import job_row
from tests.racing import at_once
from tests.workflows import asks, edges_of, launch, make_template, moves, nodes_of


def input_of(engine: Engine, job_id: int) -> Any:
    with engine.connect() as connection:
        return connection.execute(
            text("SELECT * FROM workflow_input WHERE job_id = :id"), {"id": job_id}
        ).one()


def test_a_launch_copies_the_graph(engine: Engine) -> None:
    nodes = [asks("a", timeout=7), asks("b", converge=True)]
    with transaction(engine) as connection:
        template = make_template(connection, "deploy", nodes, moves("a>b", "a!b"))
        before = read_counter(connection)
        launched = launch_workflow(connection, template, {}, principal="ann")
        assert read_counter(connection) == before + 1
        save_graph(connection, template, [], [])
    assert launched.created
    assert launched.owed.wakes == {Manager.TASK}
    row = job_row(engine, launched.job_id)
    assert (row.kind, row.status, row.name, row.launched_by) == (
        "workflow", "pending", "deploy", "ann",
    )  # fmt: skip
    assert (row.task_impact, row.dependencies_processed, row.allow_simultaneous) == (0, True, False)
    copied = nodes_of(engine, launched.job_id)
    assert copied["a"].approval_timeout == 7
    assert copied["b"].all_parents_must_converge
    assert edges_of(engine, launched.job_id) == {("a", "b", "success"), ("a", "b", "failure")}


def test_prompts_count_where_the_template_asks_for_them(engine: Engine) -> None:
    with transaction(engine) as connection:
        template = make_template(
            connection,
            extra_vars={"a": 1, "b": 1},
            prompts={"limit": "web", "verbosity": 2},
            ask_variables_on_launch=True,
        )
        prompts = {"extra_vars": {"b": 2}, "limit": "db"}
        launched = launch_workflow(connection, template, prompts, principal="ann")
    assert launched.ignored_fields == {"limit": "db"}
    stored = input_of(engine, launched.job_id)
    assert stored.extra_vars == {"a": 1, "b": 2}
    assert stored.prompts == {"limit": "web", "verbosity": 2}


@pytest.mark.parametrize(
    ("prompts", "field"),
    [
        ({"extra_vars": {"1x": 1}}, "extra_vars"),
        ({"extra_vars": "text"}, "extra_vars"),
        ({"limit": "a\nb"}, "limit"),
        ({"inventory": 99}, "inventory"),
        ({"inventory": [1]}, "inventory"),
    ],
)
def test_a_wrong_prompt_is_refused(engine: Engine, prompts: dict[str, Any], field: str) -> None:
    with transaction(engine) as connection:
        template = make_template(connection)
    with pytest.raises(InvalidRequest) as caught, transaction(engine) as connection:
        launch_workflow(connection, template, prompts, principal="ann")
    assert set(caught.value.fields) == {field}
    with pytest.raises(NotFound), transaction(engine) as connection:
        launch_workflow(connection, 99, {}, principal="ann")


def test_a_key_makes_one_workflow_job(engine: Engine) -> None:
    with transaction(engine) as connection:
        template = make_template(connection, "t", [asks("a")])

    def send(**prompts: Any) -> Launched:
        with transaction(engine) as connection:
            return launch_workflow(
                connection, template, prompts, principal="ann", idempotency_key="k"
            )

    answers = at_once([send] * 4)
    assert len({a.job_id for a in answers}) == 1
    assert sum(a.created for a in answers) == 1
    with pytest.raises(Conflict, match="another request"):
        send(limit="web")


def test_a_wrong_launch_disturbs_no_other_of_its_batch(engine: Engine) -> None:
    with transaction(engine) as connection:
        template = make_template(connection, "t", [asks("a"), asks("b")], moves("a>b"))
        wanted = [
            WorkflowLaunch(template, {}, "ann", variables={"x": 1}),
            WorkflowLaunch(99, {}, "ann"),
            WorkflowLaunch(template, {"limit": "\n"}, "ann"),
            WorkflowLaunch(template, {}, "ann"),
        ]
        first, missing, wrong, last = launch_workflows(connection, wanted)
    assert isinstance(missing, NotFound)
    assert isinstance(wrong, InvalidRequest)
    assert isinstance(first, Launched)
    assert isinstance(last, Launched)
    assert input_of(engine, first.job_id).extra_vars == {"x": 1}
    assert edges_of(engine, last.job_id) == {("a", "b", "success")}


def test_a_graph_is_never_copied_half_way_through_a_save(engine: Engine) -> None:
    old = [asks("a"), asks("b")], moves("a>b")
    new = [asks("c"), asks("d")], moves("c>d")
    with transaction(engine) as connection:
        template = make_template(connection, "t", *old)
    stop = threading.Event()
    seen = []

    def save() -> None:
        for number in range(12):
            with transaction(engine) as connection:
                save_graph(connection, template, *(new if number % 2 == 0 else old))
        stop.set()

    def launches() -> None:
        while not stop.is_set():
            with transaction(engine) as connection:
                seen.append(launch(connection, template))

    assert at_once([save, launches]) == [None, None]
    assert seen
    for job_id in seen:
        names = set(nodes_of(engine, job_id))
        assert (names, edges_of(engine, job_id)) in (
            ({"a", "b"}, {("a", "b", "success")}),
            ({"c", "d"}, {("c", "d", "success")}),
        )


# -- slices


def test_a_sliced_launch_is_a_workflow_of_root_nodes(engine: Engine) -> None:
    with transaction(engine) as connection:
        organization = default_organization(connection)
        template = connection.execute(
            insert(t.job_template)
            .values(organization_id=organization, name="site", playbook="site.yml")
            .returning(t.job_template.c.id)
        ).scalar_one()
        launched = launch_sliced(
            connection,
            SlicedLaunch(
                template,
                "site",
                organization,
                3,
                "ann",
                prompts={"limit": "web"},
                variables={"x": 1},
            ),
        )
    row = job_row(engine, launched.job_id)
    assert (row.kind, row.slice_count, row.job_template_id) == ("workflow", 3, template)
    slices = nodes_of(engine, launched.job_id)
    assert [n.slice_number for n in slices.values()] == [1, 2, 3]
    assert {(n.spawns, n.template_id) for n in slices.values()} == {("job_template", template)}
    assert all(n.prompts == {"limit": "web"} for n in slices.values())
    assert input_of(engine, launched.job_id).extra_vars == {"x": 1}
    assert edges_of(engine, launched.job_id) == set()


# -- relaunched


def ended(connection: Connection, status: str, ends: dict[str, str | None], *steps: str) -> int:
    """A run that has ended: identifier → status of the node's job; None: it did not run."""
    workflow = make_job(connection, kind="workflow", status=status)
    connection.execute(
        text(
            "INSERT INTO workflow_input (job_id, extra_vars, prompts)"
            ' VALUES (:job, \'{"x": 1}\', \'{"limit": "web"}\')'
        ),
        {"job": workflow},
    )
    ids = {}
    for name, end in ends.items():
        job_id = None if end is None else make_job(connection, status=end)
        ids[name] = connection.execute(
            insert(t.workflow_node)
            .values(
                workflow_job_id=workflow, identifier=name, job_id=job_id, do_not_run=job_id is None
            )
            .returning(t.workflow_node.c.id)
        ).scalar_one()
    for parent, child, kind in moves(*steps):
        connection.execute(
            insert(t.workflow_edge).values(parent_id=ids[parent], child_id=ids[child], kind=kind)
        )
    return workflow


def test_a_relaunch_runs_everything_again_with_the_same_variables(engine: Engine) -> None:
    with transaction(engine) as connection:
        run = ended(connection, "failed", {"a": "successful", "b": "failed", "c": None}, "a>b", "b>c")  # fmt: skip
        again = relaunch_workflow(connection, run, principal="bob")
    row = job_row(engine, again.job_id)
    assert (row.status, row.launch_type, row.launched_by) == ("pending", "relaunch", "bob")
    assert [(n.job_id, n.do_not_run) for n in nodes_of(engine, again.job_id).values()] == [
        (None, False)
    ] * 3
    assert edges_of(engine, again.job_id) == {("a", "b", "success"), ("b", "c", "success")}
    stored = input_of(engine, again.job_id)
    assert (stored.extra_vars, stored.prompts) == ({"x": 1}, {"limit": "web"})


def test_a_relaunch_from_failed_nodes_keeps_what_succeeded_and_is_not_behind_a_failure(
    engine: Engine,
) -> None:
    ends = {"a": "successful", "b": "failed", "c": None, "mend": "successful", "other": "successful"}  # fmt: skip
    with transaction(engine) as connection:
        run = ended(connection, "failed", ends, "a>b", "b>c", "b!mend", "a-other")
        again = relaunch_workflow(connection, run, principal="bob", from_failed=True)
    before = nodes_of(engine, run)
    after = nodes_of(engine, again.job_id)
    assert {name for name, node in after.items() if node.job_id is not None} == {"a", "other"}
    assert after["a"].job_id == before["a"].job_id
    assert not any(node.do_not_run for node in after.values())


def test_a_relaunch_that_makes_no_sense_is_refused(engine: Engine) -> None:
    with transaction(engine) as connection:
        good = ended(connection, "successful", {"a": "successful"})
        active = make_job(connection, kind="workflow", status="running")
        job = make_job(connection, status="failed")
    cases = [(good, True, "nothing_failed"), (active, False, "not_final")]
    for run, from_failed, code in cases:
        with pytest.raises(Conflict) as caught, transaction(engine) as connection:
            relaunch_workflow(connection, run, principal="bob", from_failed=from_failed)
        assert caught.value.code == code
    with pytest.raises(NotFound), transaction(engine) as connection:
        relaunch_workflow(connection, job, principal="bob")
