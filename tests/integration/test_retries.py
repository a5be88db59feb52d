"""Jobs that are lost with their node are launched again, as often as their template allows."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, Engine, insert, text

from dispatcher.actions.launch_template import launch_job_template
from dispatcher.actions.save_workflow import NodeSpec
from dispatcher.broker.messages import Manager
from dispatcher.db import job_moves
from dispatcher.db import tables as t
from dispatcher.db.credential_rows import note_credentials
from dispatcher.db.engine import transaction
from dispatcher.db.job_moves.retries import FRESH
from dispatcher.domain.outcome import Outcome
from dispatcher.secrets import Cipher
from schedulers.core.decision import FinishLost
from schedulers.passes import apply_recovery
from schedulers.passes.manager_pass import Runner
from tests.factories import make_job, make_node, store_bundle
from tests.passes import changed, job_row
from tests.templates import make_inventory, make_project, make_template, updated
from tests.workflows import launch, moves, nodes_of, settle
from tests.workflows import make_template as make_workflow


def lose(
    connection: Connection, job_id: int, outcome: Outcome = Outcome.NODE_LOST
) -> job_moves.Finished:
    """End a running job as whoever found it lost."""
    dispatch = connection.execute(
        text("SELECT dispatch_id FROM job WHERE id = :job"), {"job": job_id}
    ).scalar_one()
    done = job_moves.finish(
        connection,
        job_id,
        dispatch_id=dispatch,
        outcome=outcome,
        explanation="gone",
        events_complete=False,
    )
    assert done is not None
    return done


def claim(engine: Engine, job_id: int) -> None:
    row = job_row(engine, job_id)
    with transaction(engine) as connection:
        pairs = [(job_id, row.dispatch_id)]
        assert job_moves.claim(connection, pairs, node_id=row.node_id, epoch=1)


def rows_of(connection: Connection, table: str, job_id: int) -> dict[str, Any]:
    query = text(f"SELECT * FROM {table} WHERE job_id = :job")
    row = dict(connection.execute(query, {"job": job_id}).mappings().one())
    return {name: value for name, value in row.items() if name != "job_id"}


def test_a_retry_has_everything_that_its_job_ran_with_and_one_retry_less(engine: Engine) -> None:
    with transaction(engine) as connection:
        make_node(connection)
        project = make_project(connection)
        inventory = make_inventory(connection, ["h"])
        template = make_template(connection, project, inventory)
        lost = make_job(
            connection,
            status="running",
            name="deploy",
            priority=3,
            forks=7,
            launch_type="scheduled",
            launched_by="ann",
            retries_left=2,
            host_lock="exclusive",
            lock_keys=["host:h:22"],
            bundle_digest=store_bundle(connection, {"site.yml": "# x"}),
            job_template_id=template,
            project_id=project,
            inventory_id=inventory,
            inventory_revision=4,
            allow_simultaneous=False,
            slice_number=2,
            slice_count=3,
            inputs={"extra_vars": {"b": 1, "a": 2}, "secret_vars": b"sealed", "tags": ["x"]},
        )
        connection.execute(
            insert(t.job_project).values(
                job_id=lost, scm_type="git", scm_url="u", scm_branch="main", revision="abc"
            )
        )
        note_credentials(connection, [(lost, 77, "login")])
        retry = lose(connection, lost).retry_id
        assert retry is not None
        for table in ("job_input", "job_project", "job_credential"):
            assert rows_of(connection, table, retry) == rows_of(connection, table, lost)
    before, after = job_row(engine, lost), job_row(engine, retry)
    for name in set(t.job.columns.keys()) - FRESH:
        assert getattr(after, name) == getattr(before, name), name
    assert (after.status, after.retry_of, after.retries_left) == ("pending", lost, 1)
    assert after.dependencies_processed
    assert after.uuid != before.uuid
    assert (before.status, before.outcome) == ("error", "node_lost")


@pytest.mark.parametrize(
    ("columns", "outcome"),
    [
        ({"retries_left": 0}, Outcome.NODE_LOST),
        ({"retries_left": 2, "cancel_requested": True}, Outcome.NODE_LOST),
        ({"retries_left": 2}, Outcome.FENCED),
        ({"retries_left": 2}, Outcome.FAILED_HOSTS),
    ],
    ids=["none left", "canceled", "fenced", "failed"],
)
def test_nothing_else_is_launched_again(
    engine: Engine, columns: dict[str, Any], outcome: Outcome
) -> None:
    with transaction(engine) as connection:
        make_node(connection)
        job_id = make_job(connection, status="running", **columns)
        assert lose(connection, job_id, outcome).retry_id is None
        assert connection.scalar(text("SELECT count(*) FROM job")) == 1


def test_a_template_says_how_often_and_a_lost_retry_is_launched_again(
    engine: Engine, running: Runner, cipher: Cipher
) -> None:
    with changed(engine) as connection:
        node_id = make_node(connection)
        project = make_project(connection)
        updated(connection, project)
        template = make_template(
            connection, project, make_inventory(connection, ["h"]), retries_on_node_loss=2
        )
        job_id = launch_job_template(
            connection, template, {}, principal="ann", cipher=cipher
        ).job_id
    chain = [job_id]
    for _ in range(2):
        running.trigger(Manager.TASK)
        claim(engine, chain[-1])
        row = job_row(engine, chain[-1])
        decision = FinishLost(chain[-1], row.dispatch_id, "n1")
        with changed(engine) as connection:
            # twice: the second finds nothing that runs
            applied = [apply_recovery.finish_lost(connection, [decision]) for _ in "ab"]
        assert [a.counts["finish_lost"] for a in applied] == [1, 0]
        assert Manager.TASK in applied[0].owed.wakes
        with engine.connect() as connection:
            again = connection.execute(
                text("SELECT id FROM job WHERE retry_of = :job"), {"job": chain[-1]}
            ).scalar_one()
        chain.append(again)
    running.trigger(Manager.TASK)
    claim(engine, chain[-1])
    with changed(engine) as connection:
        assert lose(connection, chain[-1]).retry_id is None
    assert job_row(engine, chain[-1]).node_id == node_id


def test_a_retry_takes_its_jobs_place_in_the_workflow_which_goes_on(
    engine: Engine, running: Runner, cipher: Cipher
) -> None:
    workflow, first = _running_workflow(engine, running, cipher)
    with changed(engine) as connection:
        dispatch = job_row(engine, first).dispatch_id
        applied = apply_recovery.finish_lost(connection, [FinishLost(first, dispatch, "n1")])
    assert applied.owed.wakes == {Manager.TASK, Manager.WORKFLOW}
    node = nodes_of(engine, workflow)["a"]
    retry = node.job_id
    assert (node.attempt, job_row(engine, retry).retry_of) == (2, first)
    with engine.connect() as connection:
        spawned = connection.execute(text("SELECT attempt, job_id FROM workflow_spawn ORDER BY 1"))
        assert [tuple(row) for row in spawned] == [(1, first), (2, retry)]
    settle(running)
    assert job_row(engine, workflow).status == "running"
    claim(engine, retry)
    with changed(engine) as connection:
        done = lose(connection, retry, Outcome.SUCCESSFUL)
        connection.execute(
            text("INSERT INTO workflow_touch (workflow_job_id) VALUES (:w)"), {"w": workflow}
        )
    assert done.retry_id is None
    settle(running)
    assert nodes_of(engine, workflow)["b"].status == "waiting"
    assert nodes_of(engine, workflow)["a"].job_id == retry


def test_a_workflow_that_is_to_be_canceled_gets_no_retry(
    engine: Engine, running: Runner, cipher: Cipher
) -> None:
    workflow, first = _running_workflow(engine, running, cipher)
    with changed(engine) as connection:
        job_moves.cancel(connection, workflow)
        assert lose(connection, first).retry_id is None


def test_a_cancel_of_the_workflow_that_is_not_seen_meets_the_retry_among_the_children(
    engine: Engine, running: Runner, cipher: Cipher
) -> None:
    """The cancel commits after the end of the lost job has looked for it."""
    workflow, first = _running_workflow(engine, running, cipher)
    with engine.connect() as canceling, canceling.begin():
        job_moves.cancel(canceling, workflow)
        with changed(engine) as connection:
            dispatch = job_row(engine, first).dispatch_id
            apply_recovery.finish_lost(connection, [FinishLost(first, dispatch, "n1")])
        canceling.execute(
            text("INSERT INTO workflow_touch (workflow_job_id) VALUES (:w)"), {"w": workflow}
        )
    settle(running)
    retry = nodes_of(engine, workflow)["a"].job_id
    assert retry != first
    assert job_row(engine, retry).status == "canceled"
    assert job_row(engine, workflow).status == "canceled"


def _running_workflow(engine: Engine, running: Runner, cipher: Cipher) -> tuple[int, int]:
    """A workflow of two jobs, the first of which runs."""
    with changed(engine) as connection:
        make_node(connection)
        project = make_project(connection)
        updated(connection, project)
        template = make_template(
            connection, project, make_inventory(connection, ["h"]), retries_on_node_loss=1
        )
        nodes = [NodeSpec(name, "job_template", template) for name in "ab"]
        workflow = launch(connection, make_workflow(connection, nodes=nodes, edges=moves("a>b")))
    settle(running)
    first = nodes_of(engine, workflow)["a"].job_id
    claim(engine, first)
    return workflow, first


def test_an_idempotency_key_lives_as_long_as_a_retry_is_not_final(engine: Engine) -> None:
    with transaction(engine) as connection:
        make_node(connection)
        chain = [make_job(connection, status="error", outcome="node_lost")]
        for status in ("error", "pending"):
            chain.append(make_job(connection, status=status, retry_of=chain[-1]))
        connection.execute(
            text(
                "INSERT INTO idempotency_key (principal, route, key, request_sha256, job_id,"
                " created) VALUES ('p', 'runs', 'k', '', :job,"
                " dispatcher_now() - interval '25 hours')"
            ),
            {"job": chain[0]},
        )
        assert apply_recovery.delete_idempotency_keys(connection) == 0
        job_moves.cancel(connection, chain[-1])
        assert apply_recovery.delete_idempotency_keys(connection) == 1
