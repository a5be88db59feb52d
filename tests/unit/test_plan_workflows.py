"""WorkflowManager's decisions while there are no edges: the cancel cascade, and the end."""

from __future__ import annotations

import pytest

from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import FINAL, Status
from schedulers.core.decision import CancelChild, FinishWorkflow, SkipNode
from schedulers.core.plan_workflows import plan_workflows
from schedulers.core.snapshot import ChildJob, WorkflowJob, WorkflowNode


def step(id, status=None, *, cancel_requested=False, do_not_run=False):
    job = None if status is None else ChildJob(id * 10, status, cancel_requested)
    return WorkflowNode(id, f"step {id}", do_not_run, job)


def workflow(*nodes, canceled=False, id=1):
    return WorkflowJob(id, canceled, nodes)


def decide(*nodes, canceled=False):
    return plan_workflows([workflow(*nodes, canceled=canceled)])


def test_a_workflow_whose_jobs_all_succeeded_is_successful():
    done = decide(step(1, Status.SUCCESSFUL), step(2, do_not_run=True))
    assert done == [FinishWorkflow(1, Outcome.SUCCESSFUL, "")]


@pytest.mark.parametrize("status", [Status.PENDING, Status.WAITING, Status.RUNNING])
def test_a_workflow_goes_on_while_a_child_is_unfinished(status):
    assert decide(step(1, Status.FAILED), step(2, status)) == []


def test_a_workflow_goes_on_while_a_node_may_still_run():
    assert decide(step(1, Status.SUCCESSFUL), step(2)) == []


@pytest.mark.parametrize("status", sorted(FINAL - {Status.SUCCESSFUL}))
def test_a_workflow_fails_with_a_child_and_names_it(status):
    (decision,) = decide(step(1, Status.SUCCESSFUL), step(2, status))
    assert isinstance(decision, FinishWorkflow)
    assert decision.outcome is Outcome.WORKFLOW_FAILED
    assert f"step 2 (job 20: {status})" in decision.explanation
    assert "step 1" not in decision.explanation


def test_the_explanation_of_a_failed_workflow_is_bounded():
    (decision,) = decide(*(step(i, Status.FAILED) for i in range(1, 26)))
    assert "step 10 " in decision.explanation
    assert "step 11 " not in decision.explanation
    assert "and 15 more" in decision.explanation


def test_an_empty_workflow_is_successful():
    assert decide() == [FinishWorkflow(1, Outcome.SUCCESSFUL, "")]


def test_a_canceled_workflow_cancels_its_children_once_and_skips_the_rest():
    decisions = decide(
        step(4, Status.RUNNING, cancel_requested=True),
        step(3),
        step(2, Status.PENDING),
        step(1, Status.SUCCESSFUL),
        step(5, do_not_run=True),
        canceled=True,
    )
    assert decisions == [SkipNode(1, 3), CancelChild(1, 20)]


def test_a_canceled_workflow_ends_canceled_when_no_child_is_active():
    (skip, finish) = decide(step(1, Status.FAILED), step(2), canceled=True)
    assert skip == SkipNode(1, 2)
    assert isinstance(finish, FinishWorkflow)
    assert finish.outcome is Outcome.CANCELED


def test_workflows_and_their_nodes_are_decided_in_order_of_id():
    nodes = [step(i) for i in (3, 1, 2)]
    flows = [workflow(*nodes, canceled=True, id=i) for i in (2, 1)]
    skipped = [d for d in plan_workflows(flows) if isinstance(d, SkipNode)]
    assert [(d.workflow_job_id, d.workflow_node_id) for d in skipped] == [
        (1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3),
    ]  # fmt: skip


def test_a_workflow_of_ten_thousand_nodes_is_decided():
    (decision,) = decide(*(step(i, Status.SUCCESSFUL) for i in range(1, 10_001)))
    assert decision == FinishWorkflow(1, Outcome.SUCCESSFUL, "")
