"""Saving the graph of a workflow job template: checked as a whole, whatever part of it changes.

A graph is never saved with a cycle, an edge to itself or a template nested in itself: saves are
one after another, so two of them cannot each be right alone and wrong together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from psycopg2.extras import Json
from sqlalchemy import Connection, text

from dispatcher.db import workflow_templates as rows
from dispatcher.domain.workflow_node import (
    TEMPLATE_TABLES,
    node_problems,
)
from dispatcher.domain.workflow_node import EdgeSpec as EdgeSpec
from dispatcher.domain.workflow_node import NodeSpec as NodeSpec
from dispatcher.errors import InvalidRequest, NotFound
from schedulers.core.workflow_graph import nesting_path, path_words, problems


def save_graph(
    connection: Connection,
    workflow_job_template_id: int,
    nodes: Sequence[NodeSpec],
    edges: Sequence[EdgeSpec],
) -> dict[str, int]:
    """Replace the whole graph; a node that keeps its identifier keeps its id.

    Args:
        edges: (parent, child, kind), by identifier.

    Returns:
        Identifier → id of each node.

    Raises:
        NotFound: no such template.
        InvalidRequest: ``nodes`` and ``edges`` → what is wrong, with names and paths.
    """
    rows.lock_template(connection, workflow_job_template_id)
    _check(connection, workflow_job_template_id, nodes, edges)
    rows.delete_other_nodes(connection, workflow_job_template_id, [n.identifier for n in nodes])
    ids = rows.write_nodes(connection, workflow_job_template_id, [_columns(n) for n in nodes])
    rows.delete_edges(connection, workflow_job_template_id)
    rows.insert_edges(connection, [(ids[a], ids[b], kind) for a, b, kind in edges])
    rows.note_change(connection, workflow_job_template_id)
    return ids


def save_node(connection: Connection, workflow_job_template_id: int, node: NodeSpec) -> int:
    """Add a node, or change the one that has this identifier; its id.

    Raises:
        NotFound, InvalidRequest: see :func:`save_graph`.
    """
    rows.lock_template(connection, workflow_job_template_id)
    nodes = {each.identifier: each for each in _nodes(connection, workflow_job_template_id)}
    nodes[node.identifier] = node
    edges = rows.read_edges(connection, workflow_job_template_id)
    _check(connection, workflow_job_template_id, list(nodes.values()), edges, new=node)
    ids = rows.write_nodes(connection, workflow_job_template_id, [_columns(node)])
    rows.note_change(connection, workflow_job_template_id)
    return ids[node.identifier]


def create_node(
    connection: Connection, workflow_job_template_id: int, node: NodeSpec, *, unfinished: bool
) -> int:
    """Add a node; its id.

    Args:
        unfinished: it may come without its template, which is said later.

    Raises:
        NotFound: no such template.
        InvalidRequest: by field of :class:`NodeSpec`.
    """
    rows.lock_template(connection, workflow_job_template_id)
    nodes = _nodes(connection, workflow_job_template_id)
    edges = rows.read_edges(connection, workflow_job_template_id)
    _check_node(connection, workflow_job_template_id, [*nodes, node], edges, node, unfinished)
    ids = rows.write_nodes(connection, workflow_job_template_id, [_columns(node)])
    rows.note_change(connection, workflow_job_template_id)
    return ids[node.identifier]


def change_node(
    connection: Connection, node_id: int, changed: Mapping[str, Any], *, unfinished: bool
) -> None:
    """Change a node, its identifier too.

    Args:
        changed: fields of :class:`NodeSpec`; ``prompts`` as a whole.

    Raises:
        NotFound: no such node.
        InvalidRequest: by field.
    """
    template_id, before = _place(connection, node_id)
    nodes = {each.identifier: each for each in _nodes(connection, template_id)}
    node = replace(nodes.pop(before), **changed)
    names = {before: node.identifier}
    edges = [
        (names.get(parent, parent), names.get(child, child), kind)
        for parent, child, kind in rows.read_edges(connection, template_id)
    ]
    _check_node(connection, template_id, [*nodes.values(), node], edges, node, unfinished)
    rows.change_node(connection, node_id, _columns(node))
    rows.note_change(connection, template_id)


def read_node(connection: Connection, node_id: int) -> NodeSpec:
    """A node as it is, its template locked.

    Raises:
        NotFound: no such node.
    """
    template_id, identifier = _place(connection, node_id)
    return next(n for n in _nodes(connection, template_id) if n.identifier == identifier)


def delete_node(connection: Connection, node_id: int) -> None:
    """Remove a node and its edges.

    Raises:
        NotFound: no such node.
    """
    template_id, _ = _place(connection, node_id)
    rows.delete_node(connection, node_id)
    rows.note_change(connection, template_id)


def add_edge(connection: Connection, parent_id: int, child_id: int, kind: str) -> None:
    """Add an edge between two nodes of one template; one that is there already stays.

    Raises:
        NotFound: no such parent.
        InvalidRequest: the edge would make a graph that cannot run; names the path.
    """
    template_id, parent = _place(connection, parent_id)
    names = {node_id: name for name, node_id in rows.read_ids(connection, template_id).items()}
    if child_id not in names:
        raise InvalidRequest({"id": f"no node {child_id} in the workflow of node {parent_id}"})
    edge = (parent, names[child_id], kind)
    edges = rows.read_edges(connection, template_id)
    if edge in edges:
        return
    _check(connection, template_id, _nodes(connection, template_id), [*edges, edge], new=edge)
    rows.insert_edges(connection, [(parent_id, child_id, kind)])
    rows.note_change(connection, template_id)


def remove_edge(connection: Connection, parent_id: int, child_id: int, kind: str) -> None:
    """Remove an edge; one that is not there is no error.

    Raises:
        NotFound: no such parent.
    """
    template_id, _ = _place(connection, parent_id)
    rows.delete_edge(connection, parent_id, child_id, kind)
    rows.note_change(connection, template_id)


def _place(connection: Connection, node_id: int) -> tuple[int, str]:
    """The locked template of a node, and the node's identifier."""
    row = connection.execute(
        text(
            "SELECT workflow_job_template_id, identifier FROM workflow_template_node WHERE id = :id"
        ),
        {"id": node_id},
    ).one_or_none()
    if row is None:
        raise NotFound(f"no workflow node {node_id}")
    rows.lock_template(connection, row.workflow_job_template_id)
    return row.workflow_job_template_id, row.identifier


def _nodes(connection: Connection, template_id: int) -> list[NodeSpec]:
    return [NodeSpec(**row) for row in rows.read_nodes(connection, template_id)]


def _columns(node: NodeSpec) -> dict[str, Any]:
    return asdict(node) | {"prompts": Json(dict(node.prompts))}


def _check(
    connection: Connection,
    template_id: int,
    nodes: Sequence[NodeSpec],
    edges: Sequence[EdgeSpec],
    new: NodeSpec | EdgeSpec | None = None,
) -> None:
    """Refuse a graph that cannot run.

    Args:
        new: the one part of it that is new; None: all of it. What was saved before may refer to
            templates that were deleted since.
    """
    fresh = [n for n in nodes if n is new] if new is not None else list(nodes)
    found = problems([node.identifier for node in nodes], edges)
    about_nodes = found.get("nodes", [])
    for node in fresh:
        for words in node_problems(node).values():
            about_nodes += [f"{node.identifier}: {problem}" for problem in words]
    if not about_nodes:
        about_nodes += _missing(connection, fresh)
    if not about_nodes:
        about_nodes += _nesting_problem(connection, template_id, nodes)
    if about_nodes:
        found["nodes"] = about_nodes
    if found:
        raise InvalidRequest(found)


def _check_node(
    connection: Connection,
    template_id: int,
    nodes: Sequence[NodeSpec],
    edges: Sequence[EdgeSpec],
    node: NodeSpec,
    unfinished: bool,
) -> None:
    """Refuse a node that cannot run, by its fields."""
    found = node_problems(node, unfinished=unfinished)
    if problems([each.identifier for each in nodes], edges).get("nodes"):
        found.setdefault("identifier", ["there is a node of this name in the workflow already"])
    if not found and node.template_id is not None:
        words = _missing_templates(connection, [node]) or _nesting_problem(
            connection, template_id, nodes
        )
        if words:
            found["template_id"] = [each.removeprefix(f"{node.identifier}: ") for each in words]
    inventory = node.prompts.get("inventory")
    if (
        not found
        and inventory is not None
        and not rows.existing(connection, "inventory", [inventory])
    ):
        found["inventory"] = [f"there is no inventory {inventory}"]
    if found:
        raise InvalidRequest(found)


def _missing(connection: Connection, nodes: Sequence[NodeSpec]) -> list[str]:
    """Templates and inventories that nodes name and that do not exist."""
    wanted = {n.prompts["inventory"] for n in nodes if n.prompts.get("inventory") is not None}
    known = rows.existing(connection, "inventory", sorted(wanted))
    return _missing_templates(connection, nodes) + [
        f"{n.identifier}: no inventory {n.prompts['inventory']}"
        for n in nodes
        if n.prompts.get("inventory") is not None and n.prompts["inventory"] not in known
    ]


def _missing_templates(connection: Connection, nodes: Sequence[NodeSpec]) -> list[str]:
    found = []
    for spawns, table in TEMPLATE_TABLES.items():
        wanted = {n.template_id for n in nodes if n.spawns == spawns and n.template_id is not None}
        known = rows.existing(connection, table, sorted(wanted))
        found += [
            f"{n.identifier}: no {spawns} {n.template_id}"
            for n in nodes
            if n.spawns == spawns and n.template_id not in known
        ]
    return found


def _nesting_problem(
    connection: Connection, template_id: int, nodes: Sequence[NodeSpec]
) -> list[str]:
    own = [
        n.template_id
        for n in nodes
        if n.spawns == "workflow_job_template" and n.template_id is not None
    ]
    if not own:
        return []
    nested = rows.read_nesting(connection) | {template_id: own}
    path = nesting_path(template_id, nested)
    if path is None:
        return []
    names = rows.template_names(connection, path)
    words = path_words([names.get(step, str(step)) for step in path])
    return [f"the workflow would be nested in itself: {words}"]
