"""The form of workflow nodes and graphs, in answers and in requests."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from dispatcher.api.v2.objects import Body
from dispatcher.api.v2.prompt_fields import PromptBody, ShownPrompts

_KINDS = "`job`, `workflow_job`, `project_update`, `inventory_update` or `workflow_approval`"


class WorkflowNode(ShownPrompts):
    """One step of a workflow job template."""

    id: int = Field(description="Number of the node.")
    type: str = Field(description="Always `workflow_job_template_node`.")
    url: str = Field(description="Path of this object.")
    related: dict[str, str] = Field(description="Paths of what belongs to it, by name.")
    summary_fields: dict[str, Any] = Field(description="What its related objects are called.")
    created: datetime = Field(description="When its workflow was made.")
    modified: datetime = Field(description="When its workflow last changed.")
    identifier: str = Field(description="Its name, unique in the workflow.")
    workflow_job_template: int = Field(description="The workflow that it belongs to.")
    unified_job_template: int | None = Field(
        description="Number of what it launches; null of approvals, and of what is gone or not"
        " said yet: such a node fails when its turn comes."
    )
    unified_job_type: str = Field(description=f"What it launches: {_KINDS}.")
    approval_name: str = Field(description="Of an approval: its name.")
    approval_timeout: int = Field(description="Of an approval: seconds; 0: it waits for ever.")
    all_parents_must_converge: bool = Field(
        description="Whether it runs only if every node before it leads to it."
    )
    success_nodes: list[int] = Field(description="Nodes that follow its success.")
    failure_nodes: list[int] = Field(description="Nodes that follow its failure.")
    always_nodes: list[int] = Field(description="Nodes that follow it in any case.")


class NodeFields(PromptBody):
    """What can be said of a node wherever it is written."""

    extra_data: dict[str, Any] | str | None = Field(
        None, description="Extra variables: a mapping, or a text of JSON or YAML."
    )
    unified_job_template: int | None = Field(
        None, description="Number of the template, project or inventory source that it launches."
    )
    unified_job_type: str = Field(
        "job", description=f"What it launches: {_KINDS}.", examples=["job"]
    )
    approval_name: str = Field("", description="Of an approval: its name.")
    approval_timeout: int = Field(
        0, description="Of an approval: seconds until nobody can decide it; 0: for ever."
    )
    all_parents_must_converge: bool = Field(
        False, description="It runs only if every node before it leads to it."
    )


class NodeChanges(NodeFields):
    """What can be changed of a node."""

    identifier: str = Field("", description="Its name, unique in the workflow.")


class NewNodeInside(NodeChanges):
    """A node to be made in a workflow; without an identifier it gets one."""


class NewNode(NewNodeInside):
    """A node to be made."""

    workflow_job_template: int = Field(
        description="Number of the workflow that it belongs to.", examples=[1]
    )


class ApprovalBody(Body):
    """What a node asks somebody to approve."""

    name: str = Field(description="What is to be approved.", examples=["go to production"])
    description: str = Field("", description="Not kept.")
    timeout: int = Field(0, description="Seconds until nobody can decide it; 0: for ever.")


class ApprovalTemplate(BaseModel):
    """What a node asks somebody to approve."""

    id: int = Field(description="Number of the node.")
    type: str = Field(description="Always `workflow_approval_template`.")
    url: str = Field(description="Path of the node.")
    name: str = Field(description="What is to be approved.")
    description: str = Field(description="Always empty.")
    timeout: int = Field(description="Seconds until nobody can decide it; 0: for ever.")


class GraphNode(NodeFields):
    """A node of a graph that is written as a whole."""

    identifier: str = Field(description="Its name; edges use it.", examples=["build"])


class GraphEdge(Body):
    """An edge of a graph that is written as a whole."""

    parent: str = Field(description="Identifier of the node that it leaves.", examples=["build"])
    child: str = Field(description="Identifier of the node it leads to.", examples=["deploy"])
    kind: str = Field(description="`success`, `failure` or `always`.", examples=["success"])


class GraphBody(Body):
    """A whole graph."""

    nodes: list[GraphNode] = Field(description="Every node.")
    edges: list[GraphEdge] = Field(default_factory=list, description="Every edge.")


class ShownGraph(BaseModel):
    """A whole graph."""

    nodes: list[WorkflowNode] = Field(description="Every node.")
    edges: list[GraphEdge] = Field(description="Every edge, by identifiers.")
