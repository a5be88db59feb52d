"""``workflow_job_templates/N/graph/``: nodes and edges of a workflow, read and written as a whole."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from dispatcher.actions.save_workflow import save_graph
from dispatcher.api.auth import CallerParameter
from dispatcher.api.v2 import objects, workflow_nodes
from dispatcher.api.v2.workflow_launch import TemplateId
from dispatcher.api.v2.workflow_node_models import GraphBody, GraphNode, ShownGraph
from dispatcher.api.v2.workflow_templates import WORKFLOW_TEMPLATE
from dispatcher.db import workflow_queries as queries
from dispatcher.db import workflow_templates as rows
from dispatcher.domain.workflow_node import NodeSpec
from dispatcher.errors import InvalidRequest

router = WORKFLOW_TEMPLATE.router()


@router.get(
    "/{workflow_job_template_id}/graph/", summary="A workflow's graph", response_model=ShownGraph
)
def get_graph(caller: CallerParameter, template_id: TemplateId) -> dict[str, Any]:
    """Every node and every edge."""
    with caller.snapshot() as connection:
        objects.read_row(connection, WORKFLOW_TEMPLATE, template_id)
        return _graph(connection, template_id)


@router.put(
    "/{workflow_job_template_id}/graph/",
    summary="Replace a workflow's graph",
    response_model=ShownGraph,
)
def put_graph(caller: CallerParameter, template_id: TemplateId, body: GraphBody) -> dict[str, Any]:
    """All of it or nothing. A node that keeps its identifier keeps its number; runs under way keep
    the graph that they were launched with."""
    edges = [(edge.parent, edge.child, edge.kind) for edge in body.edges]
    with caller.transaction() as connection:
        nodes = [_spec(node) for node in body.nodes]
        save_graph(connection, template_id, nodes, edges)
        return _graph(connection, template_id)


def _spec(node: GraphNode) -> NodeSpec:
    try:
        return NodeSpec(**workflow_nodes.changes_of(node.given(), {}))
    except InvalidRequest as error:
        words = [f"{node.identifier}: {name}: {' '.join(w)}" for name, w in error.fields.items()]
        raise InvalidRequest({"nodes": words}) from None


def _graph(connection: Connection, template_id: int) -> dict[str, Any]:
    listing = queries.node_listing(template_id)
    found = connection.execute(listing.source.order_by(listing.fields["id"].expression)).mappings()
    return {
        "nodes": workflow_nodes.render(connection, list(found)),
        "edges": [
            {"parent": parent, "child": child, "kind": kind}
            for parent, child, kind in rows.read_edges(connection, template_id)
        ],
    }
