"""``workflow_job_template_nodes/``: the steps of workflows, one by one, and what follows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final
from uuid import uuid4

from fastapi import Path
from sqlalchemy import Connection

from dispatcher.actions import save_workflow as save
from dispatcher.actions import saving
from dispatcher.api.auth import CallerParameter
from dispatcher.api.v2 import objects
from dispatcher.api.v2.prompt_fields import (
    changed_prompts,
    renamed,
    shown_prompts,
    split_prompts,
)
from dispatcher.api.v2.resource import Row, url_of
from dispatcher.api.v2.template_kinds import NODE_WORDS, TEMPLATE_KINDS, shown_template
from dispatcher.api.v2.workflow_node_models import (
    ApprovalBody,
    ApprovalTemplate,
    NewNode,
    NewNodeInside,
    NodeChanges,
    WorkflowNode,
)
from dispatcher.api.v2.workflow_templates import WORKFLOW_TEMPLATE
from dispatcher.broker.messages import Owed
from dispatcher.db import tables as t
from dispatcher.db import workflow_queries as queries
from dispatcher.db.tables.workflows import EDGE_KINDS
from dispatcher.domain.workflow_node import NodeSpec
from dispatcher.errors import InvalidRequest

_SAME: Final = (
    "id",
    "created",
    "modified",
    "identifier",
    "approval_name",
    "approval_timeout",
    "all_parents_must_converge",
)
#: Field of a node's specification → what callers call it.
_FIELDS: Final = {
    "tags": "job_tags",
    "extra_vars": "extra_data",
    "spawns": "unified_job_type",
    "template_id": "unified_job_template",
}
NodeId = Annotated[int, Path(description="Number of the workflow node.", ge=1, lt=2**63)]


def render(connection: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Nodes as answers show them."""
    children = queries.read_children(connection, [row["id"] for row in rows])
    names = queries.read_spawned(
        connection, {(r["spawns"], r["template_id"]) for r in rows if r["template_id"] is not None}
    )
    return [_one(row, children.get(row["id"], {}), names) for row in rows]


def _one(
    row: Row, children: Mapping[str, list[int]], names: Mapping[tuple[str, int], str]
) -> dict[str, Any]:
    url = url_of("workflow_job_template_nodes", row["id"])
    workflow = row["workflow_job_template_id"]
    template = shown_template(row["spawns"], row["template_id"], names)
    return {
        **shown_prompts(row["prompts"]),
        **{name: row[name] for name in _SAME},
        **{f"{kind}_nodes": children.get(kind, []) for kind in EDGE_KINDS},
        "type": "workflow_job_template_node",
        "url": url,
        "related": {
            **{f"{kind}_nodes": f"{url}{kind}_nodes/" for kind in EDGE_KINDS},
            "create_approval_template": f"{url}create_approval_template/",
            "workflow_job_template": url_of("workflow_job_templates", workflow),
            **template.related,
        },
        "summary_fields": {
            "workflow_job_template": {
                "id": workflow,
                "name": row["workflow_name"],
                "description": "",
            },
            **template.summary,
        },
        "workflow_job_template": workflow,
        "unified_job_template": row["template_id"],
        "unified_job_type": TEMPLATE_KINDS[row["spawns"]].job_type,
    }


def changes_of(given: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that were sent, as those of a :class:`NodeSpec`.

    Args:
        before: prompts that the node has.

    Raises:
        InvalidRequest: an unknown type of jobs, or variables that cannot be read.
    """
    prompts, rest = split_prompts(given, "extra_data")
    changed = {name: value for name, value in rest.items() if not name.startswith("unified_job_")}
    if "unified_job_template" in rest:
        changed["template_id"] = rest["unified_job_template"]
    if "unified_job_type" in rest:
        changed["spawns"] = _spawns(rest["unified_job_type"])
    if prompts:
        changed["prompts"] = changed_prompts(before, prompts)
    return changed


def _spawns(job_type: str) -> str:
    if job_type not in NODE_WORDS:
        raise InvalidRequest({"unified_job_type": f"one of {', '.join(NODE_WORDS)}"})
    return NODE_WORDS[job_type]


def _create(connection: Connection, given: dict[str, Any], _by: str) -> tuple[int, Owed]:
    values = dict(given)
    workflow = values.pop("workflow_job_template")
    if saving.id_problem(workflow) or not _exists(connection, workflow):
        raise InvalidRequest(
            {"workflow_job_template": f"there is no workflow job template {workflow}"}
        )
    values.setdefault("identifier", str(uuid4()))
    with renamed(_FIELDS):
        node = NodeSpec(**changes_of(values, {}))
        return save.create_node(connection, workflow, node, unfinished=True), Owed()


def _exists(connection: Connection, workflow: int) -> bool:
    table = t.workflow_job_template
    found = connection.execute(table.select().where(table.c.id == workflow))
    return found.one_or_none() is not None


def _change(connection: Connection, node_id: int, given: dict[str, Any], _by: str) -> Owed:
    row = objects.read_row(connection, NODE, node_id)
    same = row["workflow_job_template_id"]
    if given.pop("workflow_job_template", same) != same:
        raise InvalidRequest({"workflow_job_template": "cannot be changed"})
    with renamed(_FIELDS):
        changed = changes_of(given, save.read_node(connection, node_id).prompts)
        # what belongs to the other kind goes, unless it is said anew
        if changed.get("spawns") == "approval":
            changed = {"template_id": None, **changed}
        elif "spawns" in changed:
            changed = {"approval_name": "", "approval_timeout": 0, **changed}
        save.change_node(connection, node_id, changed, unfinished=True)
    return Owed()


def _delete(connection: Connection, node_id: int) -> Owed:
    save.delete_node(connection, node_id)
    return Owed()


NODE: Final = objects.Noun(
    word="workflow node",
    resource="workflow_job_template_nodes",
    key="node_id",
    tag="workflow_job_templates",
    model=WorkflowNode,
    new=NewNode,
    changes=NodeChanges,
    # its fields are read here, not by rules of columns
    subject=saving.Subject(table=t.workflow_template_node, word="workflow node", rules={}),
    listing=queries.node_listing,
    render=render,
    create=_create,
    change=_change,
    delete=_delete,
)


def _put(connection: Connection, node_id: int, child: int, member: bool, *, kind: str) -> Owed:
    with renamed({"edges": "id", "nodes": "id"}):
        if member:
            save.add_edge(connection, node_id, child, kind)
        else:
            save.remove_edge(connection, node_id, child, kind)
    return Owed()


router = NODE.router()
objects.add_routes(router, NODE)
for _kind in EDGE_KINDS:
    _when = {"success": "its success", "failure": "its failure", "always": "it in any case"}[_kind]
    objects.add_list_inside(
        router,
        NODE,
        f"{_kind}_nodes",
        NODE,
        partial(queries.child_listing, kind=_kind),
        what=f"the nodes that follow {_when}",
    )
    objects.add_members(
        router, NODE, f"{_kind}_nodes", partial(_put, kind=_kind), what=f"nodes after {_when}"
    )


@router.post(
    "/{node_id}/create_approval_template/",
    summary="Make the node an approval",
    status_code=201,
    response_model=ApprovalTemplate,
)
def create_approval(caller: CallerParameter, node_id: NodeId, body: ApprovalBody) -> dict[str, Any]:
    """Instead of what it launched it waits for somebody to approve or deny."""
    names = {"approval_name": "name", "approval_timeout": "timeout"}
    approval: dict[str, Any] = {
        "spawns": "approval",
        "template_id": None,
        "prompts": {},
        "approval_name": body.name,
        "approval_timeout": body.timeout,
    }
    with caller.transaction() as connection, renamed(names):
        save.change_node(connection, node_id, approval, unfinished=False)
    return {
        "id": node_id,
        "type": "workflow_approval_template",
        "url": url_of("workflow_job_template_nodes", node_id),
        "name": body.name,
        "description": "",
        "timeout": body.timeout,
    }


inside = WORKFLOW_TEMPLATE.router()
objects.add_list_inside(
    inside,
    WORKFLOW_TEMPLATE,
    "workflow_nodes",
    NODE,
    queries.node_listing,
    what="the nodes of one workflow",
)
objects.add_create_inside(
    inside, WORKFLOW_TEMPLATE, "workflow_nodes", NODE, "workflow_job_template", NewNodeInside
)
