"""Decides what moves in running workflow jobs: spawned, skipped and failed nodes, time-outs,
the cancel cascade, and the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import FINAL, Status
from schedulers.core.decision import (
    CancelChild,
    ExpireApproval,
    FailNode,
    FinishWorkflow,
    SkipNode,
    Spawn,
    WorkflowDecision,
)
from schedulers.core.snapshot import ChildJob, WorkflowJob, WorkflowNode
from schedulers.core.workflow_graph import Evaluation, Graph, State

#: Most nodes named in the explanation of a failed workflow.
NAMED = 10
#: Under this key of a job's artifacts is what ``set_stats`` set for single hosts. It is stored
#: and shown; it is no variable of later nodes.
PER_HOST: Final = "_per_host"
#: What a node spawns, in words.
_WORDS: Final = {
    "job_template": "job template",
    "workflow_job_template": "workflow job template",
    "project": "project",
    "inventory_source": "inventory source",
    "approval": "approval",
}


def plan_workflows(workflows: Sequence[WorkflowJob]) -> list[WorkflowDecision]:
    """The decisions about each workflow, in order of workflow and node id.

    A canceled workflow: nodes without a job are never run, unfinished children are canceled once,
    and the workflow ends canceled when none is left. Any other follows its graph
    (``workflow_graph.py``) and ends when every node is decided: failed if one failed that has
    neither a failure nor an always edge, else successful.

    Raises:
        GraphError: the nodes of a workflow form a cycle, which no saved template does.
    """
    decisions: list[WorkflowDecision] = []
    for workflow in sorted(workflows, key=lambda workflow: workflow.id):
        decisions += (_cancel if workflow.cancel_requested else _go_on)(workflow)
    return decisions


def _cancel(workflow: WorkflowJob) -> Iterator[WorkflowDecision]:
    nodes = _in_order(workflow.nodes)
    for node in nodes:
        if _state(node) in (State.OPEN, State.LOST):
            yield SkipNode(workflow.id, node.id)
    unfinished = [job for job in _children(nodes) if job.status not in FINAL]
    for job in unfinished:
        if not job.cancel_requested:
            yield CancelChild(workflow.id, job.id)
    if not unfinished:
        words = "The workflow was canceled."
        yield FinishWorkflow(workflow.id, Outcome.CANCELED, words, _artifacts(nodes))


def _go_on(workflow: WorkflowJob) -> Iterator[WorkflowDecision]:
    nodes = {node.id: node for node in _in_order(workflow.nodes)}
    graph = Graph.of(list(nodes), workflow.edges)
    found = graph.evaluate(
        {node_id: _state(node) for node_id, node in nodes.items()},
        {node_id for node_id, node in nodes.items() if node.must_converge},
    )
    lost = {
        node_id: f"The {_WORDS[nodes[node_id].spawns]} of this node was deleted."
        for node_id in found.lost
    }
    if found.run:
        yield from _spawn(workflow.id, nodes, graph, found)
    for node_id in sorted(found.skip):
        yield SkipNode(workflow.id, node_id)
    for node_id in sorted(found.lost):
        yield FailNode(workflow.id, node_id, lost[node_id])
    for job in _children(nodes.values()):
        if job.expired and job.status not in FINAL:
            yield ExpireApproval(workflow.id, job.id)
    if found.done:
        failed = [_failure(nodes[node_id], lost) for node_id in sorted(found.unhandled)]
        outcome = Outcome.WORKFLOW_FAILED if failed else Outcome.SUCCESSFUL
        artifacts = _artifacts(nodes.values())
        yield FinishWorkflow(workflow.id, outcome, _explanation(failed), artifacts)


def _spawn(
    workflow_id: int,
    nodes: Mapping[int, WorkflowNode],
    graph: Graph[int],
    found: Evaluation[int],
) -> Iterator[Spawn]:
    holders = [n for n in nodes.values() if n.job is not None and n.job.has_artifacts]
    above = graph.ancestors(found.run, [node.id for node in holders if _is_final(node)])
    for node_id in sorted(found.run):
        artifacts = _artifacts(nodes[ancestor] for ancestor in above[node_id])
        yield Spawn(workflow_id, node_id, nodes[node_id].attempt + 1, artifacts)


def _state(node: WorkflowNode) -> State:
    if node.job is None:
        if node.do_not_run:
            return State.SKIPPED
        if node.start_failure:
            return State.FAILED
        return State.LOST if node.lost else State.OPEN
    if node.job.status not in FINAL:
        return State.ACTIVE
    return State.SUCCESSFUL if node.job.status is Status.SUCCESSFUL else State.FAILED


def _artifacts(nodes: Iterable[WorkflowNode]) -> tuple[int, ...]:
    """The jobs of nodes that left artifacts, in order of finishing."""
    ended = [
        (job.finished, job.id)
        for job in _children(nodes)
        if job.has_artifacts and job.finished is not None
    ]
    return tuple(job_id for _, job_id in sorted(ended))


def _explanation(failed: Sequence[str]) -> str:
    if not failed:
        return ""
    more = f" and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
    return f"No error handling path for workflow nodes {', '.join(failed[:NAMED])}{more}."


def _failure(node: WorkflowNode, lost: Mapping[int, str]) -> str:
    if node.job is not None:
        return f"{node.identifier} (job {node.job.id}: {node.job.status})"
    return f"{node.identifier} ({node.start_failure or lost[node.id]})"


def _in_order(nodes: Iterable[WorkflowNode]) -> list[WorkflowNode]:
    return sorted(nodes, key=lambda node: node.id)


def _children(nodes: Iterable[WorkflowNode]) -> list[ChildJob]:
    return [node.job for node in nodes if node.job is not None]


def _is_final(node: WorkflowNode) -> bool:
    return node.job is not None and node.job.status in FINAL


# -- what a node's job is launched with


def merge_prompts(node: Mapping[str, Any], workflow: Mapping[str, Any]) -> dict[str, Any]:
    """The prompts of a node's job: the node's own, its variables among them, overridden by those
    of the workflow.
    """
    return {**node, **{name: value for name, value in workflow.items() if name != "extra_vars"}}


def merge_variables(
    artifacts: Iterable[Mapping[str, Any]], workflow: Mapping[str, Any]
) -> dict[str, Any]:
    """The variables that are put over those of the template and of the node.

    Args:
        artifacts: what ancestors left, in order of finishing: the last one wins.
        workflow: the workflow's own variables; they win over all.
    """
    return {**merge_artifacts(artifacts), **workflow}


def merge_artifacts(artifacts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The union of what jobs left, in order of finishing: the last one wins."""
    merged: dict[str, Any] = {}
    for left in artifacts:
        merged |= {name: value for name, value in left.items() if name != PER_HOST}
    return merged
