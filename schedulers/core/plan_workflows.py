"""Decides what moves in running workflow jobs: cancel cascade and end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import FINAL, Status
from schedulers.core.decision import CancelChild, FinishWorkflow, SkipNode, WorkflowDecision
from schedulers.core.snapshot import ChildJob, WorkflowJob, WorkflowNode

#: Most nodes named in the explanation of a failed workflow.
NAMED = 10


def plan_workflows(workflows: Sequence[WorkflowJob]) -> list[WorkflowDecision]:
    """The decisions about each workflow, in order of workflow and node id.

    A canceled workflow: nodes without a job are never run, unfinished children are canceled once,
    and the workflow ends canceled when none is left. Any other ends when every node has a final
    job or will never run: failed if a child did not end successful, else successful. There are
    no edges yet, so a node without a job that may still run keeps its workflow running.
    """
    decisions: list[WorkflowDecision] = []
    for workflow in sorted(workflows, key=lambda workflow: workflow.id):
        nodes = sorted(workflow.nodes, key=lambda node: node.id)
        decisions += (_cancel if workflow.cancel_requested else _go_on)(workflow.id, nodes)
    return decisions


def _cancel(workflow_id: int, nodes: Sequence[WorkflowNode]) -> Iterator[WorkflowDecision]:
    for node in nodes:
        if node.job is None and not node.do_not_run:
            yield SkipNode(workflow_id, node.id)
    unfinished = [job for job in _children(nodes) if job.status not in FINAL]
    for job in unfinished:
        if not job.cancel_requested:
            yield CancelChild(workflow_id, job.id)
    if not unfinished:
        yield FinishWorkflow(workflow_id, Outcome.CANCELED, "The workflow was canceled.")


def _go_on(workflow_id: int, nodes: Sequence[WorkflowNode]) -> Iterator[WorkflowDecision]:
    if any(node.job is None and not node.do_not_run for node in nodes):
        return
    children = _children(nodes)
    if any(job.status not in FINAL for job in children):
        return
    failed = [
        f"{node.identifier} (job {node.job.id}: {node.job.status})"
        for node in nodes
        if node.job is not None and node.job.status is not Status.SUCCESSFUL
    ]
    if failed:
        more = f" and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
        words = f"No error handling path for workflow nodes {', '.join(failed[:NAMED])}{more}."
        yield FinishWorkflow(workflow_id, Outcome.WORKFLOW_FAILED, words)
    else:
        yield FinishWorkflow(workflow_id, Outcome.SUCCESSFUL, "")


def _children(nodes: Sequence[WorkflowNode]) -> list[ChildJob]:
    return [node.job for node in nodes if node.job is not None]
