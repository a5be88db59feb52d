"""Approvals: the first decision stands, whoever makes it; time is the database's."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from dispatcher.actions.cancel import cancel_job
from dispatcher.actions.decide_approval import ApprovalRow, decide_approval, make_approvals
from dispatcher.broker.messages import Manager
from dispatcher.db.engine import transaction
from dispatcher.errors import InvalidRequest, NotFound
from schedulers.passes.manager_pass import Runner
from tests.factories import default_organization, make_job
from tests.passes import job_row, lease_row
from tests.racing import at_once
from tests.workflows import (
    asks,
    decide,
    launch,
    make_template,
    moves,
    nodes_of,
    settle,
    touches,
)


def make_approval(connection: Connection, timeout: int = 0) -> int:
    row = ApprovalRow("go?", default_organization(connection), "ann", timeout)
    return make_approvals(connection, [row])[0].job_id


def make_late(engine: Engine, approval: int) -> None:
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE approval SET expires = dispatcher_now() WHERE job_id = :id"),
            {"id": approval},
        )


def refusal(engine: Engine, approval: int, approved: bool) -> str:
    with pytest.raises(InvalidRequest) as caught, transaction(engine) as connection:
        decide_approval(connection, approval, approved=approved, principal="carl")
    return caught.value.fields["detail"][0]


def waiting_approval(engine: Engine, running: Runner, timeout: int = 0) -> tuple[int, int]:
    """A running workflow that waits for an approval: (workflow, approval)."""
    with transaction(engine) as connection:
        template = make_template(
            connection, "t", [asks("ok", timeout=timeout), asks("yes"), asks("no")],
            moves("ok>yes", "ok!no"),
        )  # fmt: skip
        workflow = launch(connection, template)
    settle(running)
    return workflow, nodes_of(engine, workflow)["ok"].job_id


@pytest.mark.parametrize(("approved", "status"), [(True, "successful"), (False, "failed")])
def test_a_decision_stands_and_is_named_to_whoever_comes_later(
    engine: Engine, approved: bool, status: str
) -> None:
    with transaction(engine) as connection:
        approval = make_approval(connection)
        owed = decide_approval(connection, approval, approved=approved, principal="bob")
    assert owed.wakes == {Manager.WORKFLOW}
    row = job_row(engine, approval)
    assert (row.status, row.explanation) == (
        status, f"{'Approved' if approved else 'Denied'} by bob.",
    )  # fmt: skip
    word = "approved" if approved else "denied"
    assert refusal(engine, approval, not approved) == f"This approval was {word} by bob already."


def test_an_approval_that_is_late_cannot_be_decided_even_before_a_manager_comes_by(
    engine: Engine,
) -> None:
    with transaction(engine) as connection:
        approval = make_approval(connection, timeout=100)
    make_late(engine, approval)
    assert refusal(engine, approval, True) == "This approval was timed out already."
    assert job_row(engine, approval).status == "pending"


def test_a_canceled_approval_is_final(engine: Engine) -> None:
    with transaction(engine) as connection:
        approval = make_approval(connection)
        cancel_job(connection, approval)
    assert refusal(engine, approval, True) == "This approval was canceled already."


def test_only_approvals_are_decided(engine: Engine) -> None:
    with transaction(engine) as connection:
        job = make_job(connection)
    with pytest.raises(NotFound), transaction(engine) as connection:
        decide_approval(connection, job, approved=True, principal="bob")


def test_of_many_decisions_at_once_one_stands(engine: Engine) -> None:
    for _ in range(5):
        with transaction(engine) as connection:
            approval = make_approval(connection)

        def one(approved: bool | None, approval: int = approval) -> Any:
            with transaction(engine) as connection:
                if approved is None:
                    return cancel_job(connection, approval)
                return decide_approval(connection, approval, approved=approved, principal="bob")

        calls = [lambda a=a: one(a) for a in (True, False, None, True)]
        outcomes = at_once(calls)
        assert sum(not isinstance(o, Exception) for o in outcomes) == 1


def test_a_decision_moves_its_workflow_on(engine: Engine, running: Runner) -> None:
    for approved, taken in ((True, "yes"), (False, "no")):
        workflow, approval = waiting_approval(engine, running)
        row = job_row(engine, approval)
        assert (row.kind, row.status, row.name, row.launched_by) == (
            "approval", "pending", "ok?", "ann",
        )  # fmt: skip
        decide(engine, approval, approved)
        assert touches(engine) == 1
        settle(running)
        nodes = nodes_of(engine, workflow)
        assert nodes[taken].status == "pending"
        assert [n.identifier for n in nodes.values() if n.do_not_run] == list(
            {"yes", "no"} - {taken}
        )
        with engine.begin() as connection:
            connection.execute(text("DELETE FROM workflow_job_template"))


def test_nobody_decides_in_time_and_the_failure_path_is_taken(
    engine: Engine, running: Runner
) -> None:
    workflow, approval = waiting_approval(engine, running, timeout=60)
    due = lease_row(engine, Manager.WORKFLOW).next_due
    with engine.connect() as connection:
        expires = connection.scalar(text("SELECT expires FROM approval WHERE expires IS NOT NULL"))
    assert due == expires, "the next pass is not fruitless once the approval is late"
    make_late(engine, approval)
    settle(running)
    row = job_row(engine, approval)
    assert (row.status, row.outcome, row.explanation) == (
        "failed", "denied", "Nobody decided in time.",
    )  # fmt: skip
    with engine.connect() as connection:
        timed_out = text("SELECT timed_out FROM approval WHERE job_id = :id")
        assert connection.scalar(timed_out, {"id": approval}) is True
    nodes = nodes_of(engine, workflow)
    assert nodes["no"].status == "pending"
    assert nodes["yes"].do_not_run
    assert refusal(engine, approval, True) == "This approval was timed out already."


def test_the_task_manager_never_reads_an_approval(engine: Engine, running: Runner) -> None:
    with transaction(engine) as connection:
        approval = make_approval(connection)
    running.trigger(Manager.TASK)
    assert job_row(engine, approval).pending_reason is None
