"""WorkflowManager's decisions: spawned, skipped and failed nodes, cancel, time-outs, the end."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import FINAL, Status
from schedulers.core.decision import (
    CancelChild,
    ExpireApproval,
    FailNode,
    FinishWorkflow,
    SkipNode,
    Spawn,
)
from schedulers.core.plan_workflows import merge_prompts, merge_variables, plan_workflows
from schedulers.core.snapshot import ChildJob, WorkflowJob, WorkflowNode
from tests.unit import workflow_oracle as oracle
from tests.unit.test_workflow_graph import random_graph

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def step(id, status=None, *, cancel_requested=False, do_not_run=False, ended=None, **more):
    """A node with id ``id``; ``ended``: second at which its job finished and left artifacts."""
    finished = None if ended is None else NOON + timedelta(seconds=ended)
    job = None
    if status is not None:
        job = ChildJob(id * 10, status, cancel_requested, finished, ended is not None)
    return WorkflowNode(id, f"step {id}", do_not_run, job, **more)


def workflow(*nodes, canceled=False, id=1, edges=()):
    return WorkflowJob(id, canceled, nodes, tuple(edges))


def decide(*nodes, canceled=False, edges=()):
    return plan_workflows([workflow(*nodes, canceled=canceled, edges=edges)])


def test_a_workflow_whose_jobs_all_succeeded_is_successful():
    done = decide(step(1, Status.SUCCESSFUL), step(2, do_not_run=True))
    assert done == [FinishWorkflow(1, Outcome.SUCCESSFUL, "")]


@pytest.mark.parametrize("status", [Status.PENDING, Status.WAITING, Status.RUNNING])
def test_a_workflow_goes_on_while_a_child_is_unfinished(status):
    assert decide(step(1, Status.FAILED), step(2, status)) == []


def test_a_workflow_goes_on_while_a_node_may_still_run():
    edges = [(1, 2, "success")]
    assert decide(step(1, Status.RUNNING), step(2), edges=edges) == []
    assert decide(step(1, Status.SUCCESSFUL), step(2), edges=edges) == [Spawn(1, 2, 1)]


def test_root_nodes_are_spawned_at_once_under_the_number_of_their_attempt():
    assert decide(step(2), step(1, attempt=3)) == [Spawn(1, 1, 4), Spawn(1, 2, 1)]


def test_a_failure_with_a_failure_edge_does_not_fail_the_workflow():
    nodes = step(1, Status.FAILED), step(2, Status.SUCCESSFUL), step(3)
    edges = [(1, 2, "failure"), (1, 3, "success")]
    assert decide(*nodes, edges=edges) == [
        SkipNode(1, 3),
        FinishWorkflow(1, Outcome.SUCCESSFUL, ""),
    ]


def test_a_node_whose_template_was_deleted_fails_and_the_workflow_with_it():
    fail, finish = decide(step(1, lost=True))
    assert fail == FailNode(1, 1, "The job template of this node was deleted.")
    assert finish.outcome is Outcome.WORKFLOW_FAILED
    assert "step 1 (The job template of this node was deleted.)" in finish.explanation


def test_a_node_that_could_not_be_started_leads_on_by_its_failure_edge():
    nodes = step(1, start_failure="no inventory"), step(2)
    assert decide(*nodes, edges=[(1, 2, "failure")]) == [Spawn(1, 2, 1)]
    (finish,) = decide(step(1, start_failure="no inventory"))
    assert "step 1 (no inventory)" in finish.explanation


def test_an_approval_that_nobody_decided_in_time_expires():
    late = WorkflowNode(1, "ok?", job=ChildJob(10, Status.PENDING, expired=True), spawns="approval")
    assert plan_workflows([workflow(late)]) == [ExpireApproval(1, 10)]
    assert plan_workflows([workflow(late, canceled=True)]) == [CancelChild(1, 10)]


def test_an_approval_that_was_decided_late_or_in_time_does_not_expire():
    approved = ChildJob(10, Status.SUCCESSFUL, expired=True)
    decided = WorkflowNode(1, "ok?", job=approved, spawns="approval")
    assert decide(decided) == [FinishWorkflow(1, Outcome.SUCCESSFUL, "")]


def test_artifacts_of_all_ancestors_come_in_order_of_finishing():
    nodes = [
        step(1, Status.SUCCESSFUL, ended=9),
        step(2, Status.FAILED, ended=4),
        step(3, Status.SUCCESSFUL, ended=11),
        step(4, Status.SUCCESSFUL),
        step(5, Status.SUCCESSFUL, ended=2),
        step(6),
    ]
    edges = [(1, 3, "success"), (3, 6, "success"), (2, 4, "failure"), (4, 6, "always")]
    assert decide(*nodes, edges=edges) == [Spawn(1, 6, 1, (20, 10, 30))]


def test_a_workflow_keeps_the_artifacts_of_all_of_its_jobs():
    (finish,) = decide(step(1, Status.SUCCESSFUL, ended=9), step(2, Status.SUCCESSFUL, ended=4))
    assert finish.artifacts_of == (20, 10)


def test_variables_come_from_the_node_then_artifacts_then_the_workflow():
    artifacts = [{"a": 1, "b": 1, "_per_host": {"h": {}}}, {"b": 2, "c": 2}]
    assert merge_variables(artifacts, {"c": 3, "d": 3}) == {"a": 1, "b": 2, "c": 3, "d": 3}


def test_prompts_of_the_workflow_win_over_those_of_the_node():
    node = {"limit": "web", "inventory": 1, "extra_vars": {"x": 1}}
    merged = merge_prompts(node, {"limit": "db", "extra_vars": {"x": 2}})
    assert merged == {"limit": "db", "inventory": 1, "extra_vars": {"x": 1}}


# -- to the end


class Run:
    """A workflow with its jobs, and whoever ends them by chance."""

    def __init__(self, seed, size):
        self.chance = random.Random(seed)
        names, edges = random_graph(self.chance, size)
        self.lost = {name for name in names if self.chance.random() < 0.05}
        self.unstartable = {name for name in names if self.chance.random() < 0.05}
        self.nodes = {
            name: WorkflowNode(
                name,
                str(name),
                must_converge=self.chance.random() < 0.4,
                lost=name in self.lost and self.chance.random() < 0.5,
            )
            for name in names
        }
        self.edges = tuple(edges)
        self.finish = None
        self.canceled = False

    def plan(self):
        return plan_workflows(
            [WorkflowJob(1, self.canceled, tuple(self.nodes.values()), self.edges)]
        )

    def apply(self, decisions):
        for decision in decisions:
            match decision:
                case Spawn(_, id, attempt):
                    failure = "cannot" if id in self.unstartable else ""
                    job = None if failure else ChildJob(id, self.chance.choice(list(Status)[:3]))
                    node = self.nodes[id]._replace(job=job, start_failure=failure, attempt=attempt)
                    self.nodes[id] = node
                case SkipNode(_, id):
                    self.nodes[id] = self.nodes[id]._replace(do_not_run=True)
                case FailNode(_, id, reason):
                    self.nodes[id] = self.nodes[id]._replace(start_failure=reason)
                case CancelChild(_, id):
                    job = self.nodes[id].job._replace(cancel_requested=True)
                    self.nodes[id] = self.nodes[id]._replace(job=job)
                case FinishWorkflow():
                    self.finish = decision

    def end_some(self):
        """At least one of the unfinished jobs ends; templates are deleted meanwhile."""
        open_ = [n for n in self.nodes.values() if n.job and n.job.status not in FINAL]
        for node in self.chance.sample(open_, self.chance.randint(1, len(open_)) if open_ else 0):
            status = self.chance.choice(sorted(FINAL))
            if self.canceled:
                status = Status.CANCELED
            self.nodes[node.id] = node._replace(job=node.job._replace(status=status))
        for id in self.lost:
            self.nodes[id] = self.nodes[id]._replace(lost=True)
        return bool(open_)

    def told(self):
        """The nodes as the oracle is told of them."""
        return {
            n.id: oracle.node(
                n.job and str(n.job.status),
                all_=n.must_converge,
                do_not_run=n.do_not_run,
                deleted=n.lost and n.job is None,
                not_started=bool(n.start_failure),
            )
            for n in self.nodes.values()
        }


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 200), st.none() | st.integers(0, 20))
def test_every_random_graph_terminates_as_the_prose_says(seed, size, cancel_at):
    run = Run(seed, size)
    spawned = set()
    for turn in range(2 * size + 5):
        run.canceled = cancel_at is not None and turn >= cancel_at
        decisions = run.plan()
        if not run.canceled:
            to_run, to_skip, missed, done, bad = oracle.answer(run.told(), run.edges)
            assert {d.workflow_node_id for d in decisions if isinstance(d, Spawn)} == to_run
            assert {d.workflow_node_id for d in decisions if isinstance(d, SkipNode)} == to_skip
            assert {d.workflow_node_id for d in decisions if isinstance(d, FailNode)} == missed
            finishes = [d for d in decisions if isinstance(d, FinishWorkflow)]
            assert bool(finishes) == done
            if done:
                assert (finishes[0].outcome is Outcome.WORKFLOW_FAILED) == bool(bad)
            assert not spawned & to_run, "no node is spawned twice"
            spawned |= to_run
        run.apply(decisions)
        if run.finish:
            break
        assert run.end_some() or decisions, "neither a job nor a decision: it would hang"
    assert run.finish, "it went on for ever"
    jobs = [n.job for n in run.nodes.values() if n.job]
    assert all(job.status in FINAL for job in jobs)
    if run.canceled:
        assert run.finish.outcome is Outcome.CANCELED
    else:
        assert all(n.job or n.do_not_run or n.start_failure for n in run.nodes.values())


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
        step(6, lost=True),
        canceled=True,
    )
    assert decisions == [SkipNode(1, 3), SkipNode(1, 6), CancelChild(1, 20)]


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
