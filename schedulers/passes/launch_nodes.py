"""How jobs are made of workflow nodes: one function for each kind of thing that a node spawns.

Each makes the jobs of many nodes in a number of statements that does not depend on how many. A node
that no job can be made of gets its reason instead and disturbs no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, text

from dispatcher.actions.decide_approval import ApprovalRow, make_approvals
from dispatcher.actions.launch_template import TemplateLaunch, launch_job_templates
from dispatcher.actions.launch_update import (
    InventoryUpdate,
    ProjectUpdate,
    launch_inventory_updates,
    launch_project_updates,
)
from dispatcher.actions.launch_workflow import WorkflowLaunch, launch_workflows
from dispatcher.actions.launched import Launched
from dispatcher.db.workflow_templates import template_names
from dispatcher.errors import DispatcherError, InvalidRequest, NotFound
from schedulers.core.workflow_graph import path_words

#: The launch type of all that workflows spawn.
_TYPE: Final = "workflow"


@dataclass(frozen=True)
class NodeLaunch:
    """A node whose turn has come, with everything that its job is launched with.

    Attributes:
        template_id: of what it spawns; 0: it has none.
        prompts: the node's, overridden by the workflow's; subject to what the template asks for.
        variables: artifacts and the workflow's variables; they win over all others.
        principal: who launched the workflow.
        slice_number: 0: no slice.
    """

    node_id: int
    workflow_job_id: int
    organization_id: int
    template_id: int
    prompts: Mapping[str, Any]
    variables: Mapping[str, Any]
    principal: str
    slice_number: int
    slice_count: int
    approval_name: str
    approval_timeout: int


Answers = Sequence[Launched | DispatcherError]
#: Makes the jobs of nodes; for each its job, or what is wrong with it.
Launcher = Callable[[Connection, Sequence[NodeLaunch]], Answers]


def _approvals(connection: Connection, nodes: Sequence[NodeLaunch]) -> Answers:
    """Approvals wait for people, not for managers."""
    rows = [
        ApprovalRow(n.approval_name, n.organization_id, n.principal, n.approval_timeout)
        for n in nodes
    ]
    return make_approvals(connection, rows)


def _job_templates(connection: Connection, nodes: Sequence[NodeLaunch]) -> Answers:
    return launch_job_templates(
        connection,
        [
            TemplateLaunch(
                n.template_id,
                n.prompts,
                n.principal,
                _TYPE,
                variables=n.variables,
                workflow_node_id=n.node_id,
                slice_number=n.slice_number,
                slice_count=n.slice_count,
            )
            for n in nodes
        ],
    )


def _updates(
    launch: Callable[..., Sequence[Launched | None]], update: Callable[[int], Any]
) -> Launcher:
    """Updates, all those of one principal at a time."""

    def launcher(connection: Connection, nodes: Sequence[NodeLaunch]) -> Answers:
        by_principal: dict[str, list[NodeLaunch]] = defaultdict(list)
        for node in nodes:
            by_principal[node.principal].append(node)
        made: dict[int, Launched | None] = {}
        for principal, some in by_principal.items():
            wanted = [update(node.template_id) for node in some]
            answers = launch(connection, wanted, launch_type=_TYPE, principal=principal)
            made |= {n.node_id: answer for n, answer in zip(some, answers, strict=True)}
        return [made[n.node_id] or NotFound("what it updates was deleted") for n in nodes]

    return launcher


def _workflows(connection: Connection, nodes: Sequence[NodeLaunch]) -> Answers:
    """Workflows inside of workflows; one that runs further up is refused.

    No saved template is nested in itself, but one may have been saved while the workflow ran.
    """
    above = _templates_above(connection, {n.workflow_job_id for n in nodes})
    looped = {n.node_id for n in nodes if n.template_id in above[n.workflow_job_id]}
    launches = [
        WorkflowLaunch(n.template_id, n.prompts, n.principal, _TYPE, n.variables)
        for n in nodes
        if n.node_id not in looped
    ]
    launched = iter(launch_workflows(connection, launches))
    names = template_names(connection, {i for ids in above.values() for i in ids}) if looped else {}
    return [
        _nested_in_itself([*above[n.workflow_job_id][::-1], n.template_id], names)
        if n.node_id in looped
        else next(launched)
        for n in nodes
    ]


def _nested_in_itself(path: Sequence[int], names: Mapping[int, str]) -> InvalidRequest:
    words = path_words([names.get(step, str(step)) for step in path])
    return InvalidRequest({"workflow": f"would be nested in itself: {words}"})


def _templates_above(connection: Connection, workflow_ids: Collection[int]) -> dict[int, list[int]]:
    """Workflow job → the templates of itself and of those that it is nested in, inside out."""
    rows = connection.execute(
        text(
            """
            WITH RECURSIVE up AS (
                SELECT id AS start, id, workflow_job_template_id, 0 AS step
                FROM job WHERE id = ANY(CAST(:ids AS bigint[]))
                UNION ALL
                SELECT up.start, outside.id, outside.workflow_job_template_id, up.step + 1
                FROM up JOIN workflow_node ON workflow_node.job_id = up.id
                JOIN job AS outside ON outside.id = workflow_node.workflow_job_id
                    AND outside.status = 'running'
            )
            SELECT start, workflow_job_template_id FROM up ORDER BY start, step
            """
        ),
        {"ids": sorted(workflow_ids)},
    )
    above: dict[int, list[int]] = {workflow_id: [] for workflow_id in workflow_ids}
    for start, template_id in rows:
        if template_id is not None:
            above[start].append(template_id)
    return above


#: What nodes spawn → how.
LAUNCHERS: Final[Mapping[str, Launcher]] = {
    "approval": _approvals,
    "job_template": _job_templates,
    "workflow_job_template": _workflows,
    "project": _updates(launch_project_updates, ProjectUpdate),
    "inventory_source": _updates(launch_inventory_updates, InventoryUpdate),
}
