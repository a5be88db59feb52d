"""Rows of workflow job templates' graphs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from dispatcher.errors import NotFound

#: Held by a transaction that saves a graph: nesting is a matter of all templates together.
_SAVES: Final = 0x0D15_BA7D

_COLUMNS = (
    "identifier, spawns, template_id, all_parents_must_converge, prompts, approval_name,"
    " approval_timeout"
)


def lock_template(connection: Connection, template_id: int) -> None:
    """Hold a template and its graph until the transaction ends; launches of it wait that long.

    Raises:
        NotFound: no such template.
    """
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _SAVES})
    found = connection.scalar(
        text("SELECT id FROM workflow_job_template WHERE id = :id FOR NO KEY UPDATE"),
        {"id": template_id},
    )
    if found is None:
        raise NotFound(f"no workflow job template {template_id}")


def note_change(connection: Connection, template_id: int) -> None:
    """A graph has changed."""
    connection.execute(
        text("UPDATE workflow_job_template SET modified = dispatcher_now() WHERE id = :id"),
        {"id": template_id},
    )


def read_nodes(connection: Connection, template_id: int) -> list[dict[str, Any]]:
    """The nodes of a template, by column."""
    found = connection.execute(
        text(
            f"SELECT {_COLUMNS} FROM workflow_template_node"
            " WHERE workflow_job_template_id = :id ORDER BY id"
        ),
        {"id": template_id},
    )
    return [dict(row) for row in found.mappings()]


def read_ids(connection: Connection, template_id: int) -> dict[str, int]:
    """Identifier → id of each node of a template."""
    found = connection.execute(
        text(
            "SELECT identifier, id FROM workflow_template_node WHERE workflow_job_template_id = :id"
        ),
        {"id": template_id},
    )
    return dict(found.all())


def read_edges(connection: Connection, template_id: int) -> list[tuple[str, str, str]]:
    """The edges of a template: (parent, child, kind), by identifier."""
    found = connection.execute(
        text(
            "SELECT parent.identifier, child.identifier, kind FROM workflow_template_edge"
            " JOIN workflow_template_node AS parent ON parent.id = parent_id"
            " JOIN workflow_template_node AS child ON child.id = child_id"
            " WHERE parent.workflow_job_template_id = :id ORDER BY parent_id, child_id, kind"
        ),
        {"id": template_id},
    )
    return [(row[0], row[1], row[2]) for row in found]


def write_nodes(
    connection: Connection, template_id: int, nodes: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Insert nodes, or change those that have the identifiers; identifier → id."""
    if nodes:
        connection.execute(
            text(
                f"""
                INSERT INTO workflow_template_node (workflow_job_template_id, {_COLUMNS})
                VALUES (:workflow, :identifier, :spawns, :template_id, :all_parents_must_converge,
                    :prompts, :approval_name, :approval_timeout)
                ON CONFLICT (workflow_job_template_id, identifier) DO UPDATE SET
                    spawns = excluded.spawns, template_id = excluded.template_id,
                    all_parents_must_converge = excluded.all_parents_must_converge,
                    prompts = excluded.prompts, approval_name = excluded.approval_name,
                    approval_timeout = excluded.approval_timeout
                """
            ),
            [{**node, "workflow": template_id} for node in nodes],
        )
    return read_ids(connection, template_id)


def change_node(connection: Connection, node_id: int, node: Mapping[str, Any]) -> None:
    """Change one node, its identifier too."""
    connection.execute(
        text(
            "UPDATE workflow_template_node SET identifier = :identifier, spawns = :spawns,"
            " template_id = :template_id, prompts = :prompts, approval_name = :approval_name,"
            " all_parents_must_converge = :all_parents_must_converge,"
            " approval_timeout = :approval_timeout WHERE id = :id"
        ),
        {**node, "id": node_id},
    )


def delete_other_nodes(
    connection: Connection, template_id: int, identifiers: Sequence[str]
) -> None:
    """Delete the nodes that are not named, and their edges."""
    connection.execute(
        text(
            "DELETE FROM workflow_template_node WHERE workflow_job_template_id = :id"
            " AND identifier <> ALL(CAST(:names AS text[]))"
        ),
        {"id": template_id, "names": list(identifiers)},
    )


def delete_node(connection: Connection, node_id: int) -> None:
    """Delete a node and its edges."""
    connection.execute(text("DELETE FROM workflow_template_node WHERE id = :id"), {"id": node_id})


def insert_edges(connection: Connection, edges: Sequence[tuple[int, int, str]]) -> None:
    """Insert edges: (parent, child, kind), by id."""
    connection.execute(
        text(
            "INSERT INTO workflow_template_edge (parent_id, child_id, kind) SELECT * FROM"
            " unnest(CAST(:parents AS bigint[]), CAST(:children AS bigint[]),"
            " CAST(:kinds AS text[]))"
        ),
        {
            "parents": [edge[0] for edge in edges],
            "children": [edge[1] for edge in edges],
            "kinds": [edge[2] for edge in edges],
        },
    )


def delete_edges(connection: Connection, template_id: int) -> None:
    """Delete every edge of a template."""
    connection.execute(
        text(
            "DELETE FROM workflow_template_edge USING workflow_template_node"
            " WHERE id = parent_id AND workflow_job_template_id = :id"
        ),
        {"id": template_id},
    )


def delete_edge(connection: Connection, parent_id: int, child_id: int, kind: str) -> None:
    """Delete one edge, if it is there."""
    connection.execute(
        text(
            "DELETE FROM workflow_template_edge"
            " WHERE parent_id = :parent AND child_id = :child AND kind = :kind"
        ),
        {"parent": parent_id, "child": child_id, "kind": kind},
    )


def existing(connection: Connection, table: str, ids: Sequence[int]) -> set[int]:
    """Which of these rows a table of templates has.

    Args:
        table: a constant of the caller, never what somebody sent.
    """
    if not ids:
        return set()
    return set(
        connection.scalars(
            text(f"SELECT id FROM {table} WHERE id = ANY(CAST(:ids AS bigint[]))"),
            {"ids": list(ids)},
        )
    )


def read_nesting(connection: Connection) -> dict[int, list[int]]:
    """Workflow job template → those that its nodes spawn."""
    nested: dict[int, list[int]] = defaultdict(list)
    for outer, inner in connection.execute(
        text(
            "SELECT DISTINCT workflow_job_template_id, template_id FROM workflow_template_node"
            " WHERE spawns = 'workflow_job_template' AND template_id IS NOT NULL ORDER BY 1, 2"
        )
    ):
        nested[outer].append(inner)
    return dict(nested)


def template_names(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """The names of workflow job templates."""
    found = connection.execute(
        text("SELECT id, name FROM workflow_job_template WHERE id = ANY(CAST(:ids AS bigint[]))"),
        {"ids": list(ids)},
    )
    return dict(found.all())
