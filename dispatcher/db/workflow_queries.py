"""What the API reads of workflows: templates, nodes of templates and of runs, and their edges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import Connection, Select, Table, select

from dispatcher.db import tables as t
from dispatcher.db.listing import Field, FieldType, Listing

_TEMPLATE: Final = t.workflow_job_template
_TEMPLATES: Final[Select[Any]] = select(
    _TEMPLATE, t.organization.c.name.label("organization_name")
).join_from(_TEMPLATE, t.organization, t.organization.c.id == _TEMPLATE.c.organization_id)
_TEMPLATE_FIELDS: Final = {
    "id": Field(_TEMPLATE.c.id, FieldType.INTEGER),
    "name": Field(_TEMPLATE.c.name, FieldType.TEXT),
    "description": Field(_TEMPLATE.c.description, FieldType.TEXT),
    "created": Field(_TEMPLATE.c.created, FieldType.TIME),
    "modified": Field(_TEMPLATE.c.modified, FieldType.TIME),
    "organization": Field(_TEMPLATE.c.organization_id, FieldType.INTEGER),
    "organization__name": Field(t.organization.c.name, FieldType.TEXT),
    "allow_simultaneous": Field(_TEMPLATE.c.allow_simultaneous, FieldType.BOOLEAN),
}

_NODE: Final = t.workflow_template_node
_NODES: Final[Select[Any]] = select(
    _NODE,
    _TEMPLATE.c.name.label("workflow_name"),
    _TEMPLATE.c.created,
    _TEMPLATE.c.modified,
).join_from(_NODE, _TEMPLATE, _TEMPLATE.c.id == _NODE.c.workflow_job_template_id)
_NODE_FIELDS: Final = {
    "id": Field(_NODE.c.id, FieldType.INTEGER),
    "identifier": Field(_NODE.c.identifier, FieldType.TEXT),
    "workflow_job_template": Field(_NODE.c.workflow_job_template_id, FieldType.INTEGER),
    "workflow_job_template__name": Field(_TEMPLATE.c.name, FieldType.TEXT),
    "unified_job_template": Field(_NODE.c.template_id, FieldType.INTEGER),
    "all_parents_must_converge": Field(_NODE.c.all_parents_must_converge, FieldType.BOOLEAN),
}

_RUN: Final = t.workflow_node
_WORKFLOW: Final = t.job.alias("workflow")
_RUN_NODES: Final[Select[Any]] = select(
    _RUN,
    _WORKFLOW.c.name.label("workflow_name"),
    _WORKFLOW.c.created,
    t.job.c.name.label("job_name"),
    t.job.c.kind.label("job_kind"),
    t.job.c.status.label("job_status"),
    t.job.c.started.label("job_started"),
    t.job.c.finished.label("job_finished"),
).select_from(
    _RUN.join(_WORKFLOW, _WORKFLOW.c.id == _RUN.c.workflow_job_id).outerjoin(
        t.job, t.job.c.id == _RUN.c.job_id
    )
)
_RUN_FIELDS: Final = {
    "id": Field(_RUN.c.id, FieldType.INTEGER),
    "identifier": Field(_RUN.c.identifier, FieldType.TEXT),
    "workflow_job": Field(_RUN.c.workflow_job_id, FieldType.INTEGER),
    "workflow_job__name": Field(_WORKFLOW.c.name, FieldType.TEXT),
    "job": Field(_RUN.c.job_id, FieldType.INTEGER),
    "job__name": Field(t.job.c.name, FieldType.TEXT),
    "job__status": Field(t.job.c.status, FieldType.TEXT),
    "unified_job_template": Field(_RUN.c.template_id, FieldType.INTEGER),
    "do_not_run": Field(_RUN.c.do_not_run, FieldType.BOOLEAN),
    "all_parents_must_converge": Field(_RUN.c.all_parents_must_converge, FieldType.BOOLEAN),
}
#: What a node spawns → the table that names it.
_SPAWNED: Final[Mapping[str, Table]] = {
    "job_template": t.job_template,
    "workflow_job_template": t.workflow_job_template,
    "project": t.project,
    "inventory_source": t.inventory_source,
}


def template_listing() -> Listing:
    """All workflow job templates."""
    return Listing(source=_TEMPLATES, fields=_TEMPLATE_FIELDS, search=("name", "description"))


def node_listing(template_id: int | None = None) -> Listing:
    """The nodes of all templates, or of one."""
    rows = _NODES
    if template_id is not None:
        rows = rows.where(_NODE.c.workflow_job_template_id == template_id)
    return Listing(source=rows, fields=_NODE_FIELDS, search=("identifier",))


def child_listing(node_id: int, kind: str) -> Listing:
    """The nodes of a template to which edges of this kind lead from one node."""
    edge = t.workflow_template_edge
    rows = _NODES.join(edge, edge.c.child_id == _NODE.c.id).where(
        edge.c.parent_id == node_id, edge.c.kind == kind
    )
    return Listing(source=rows, fields=_NODE_FIELDS, search=("identifier",))


def run_node_listing(job_id: int | None = None) -> Listing:
    """The nodes of all workflow jobs, or of one."""
    rows = _RUN_NODES if job_id is None else _RUN_NODES.where(_RUN.c.workflow_job_id == job_id)
    return Listing(source=rows, fields=_RUN_FIELDS, search=("identifier",))


def read_children(
    connection: Connection, nodes: Collection[int], *, of_runs: bool = False
) -> dict[int, dict[str, list[int]]]:
    """The edges that leave these nodes: node → kind → the nodes they lead to."""
    edge = t.workflow_edge if of_runs else t.workflow_template_edge
    found: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for parent, kind, child in connection.execute(
        select(edge.c.parent_id, edge.c.kind, edge.c.child_id)
        .where(edge.c.parent_id.in_(nodes))
        .order_by(edge.c.parent_id, edge.c.child_id)
    ):
        found[parent][kind].append(child)
    return found


def read_spawned(
    connection: Connection, wanted: Collection[tuple[str, int]]
) -> dict[tuple[str, int], str]:
    """Names of what nodes or schedules launch: (table, id) → name; what is gone is not in it."""
    found: dict[tuple[str, int], str] = {}
    for word, table in _SPAWNED.items():
        ids = {template_id for spawns, template_id in wanted if spawns == word}
        if ids:
            rows = connection.execute(
                select(table.c.id, table.c.name).where(table.c.id.in_(sorted(ids)))
            )
            found |= {(word, row.id): row.name for row in rows}
    return found
