"""``workflow_job_nodes/`` and ``workflow_jobs/N/workflow_nodes/``: what became of each step."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path
from pydantic import Field
from sqlalchemy import Connection

from dispatcher.api.auth import CallerParameter
from dispatcher.api.v2.job_kinds import TYPES, job_url
from dispatcher.api.v2.jobs import JobId
from dispatcher.api.v2.prompt_fields import ShownPrompts, shown_prompts
from dispatcher.api.v2.resource import (
    ListQueryParameter,
    Page,
    Row,
    filters_of,
    read_list,
    url_of,
)
from dispatcher.api.v2.template_kinds import TEMPLATE_KINDS, shown_template
from dispatcher.api.v2.workflow_jobs import read_workflow
from dispatcher.db import listing as db
from dispatcher.db import workflow_queries as queries
from dispatcher.domain.status import FINAL, Kind, Status
from dispatcher.errors import NotFound

router = APIRouter(prefix="/api/v2", tags=["workflow_jobs"])

NodeId = Annotated[int, Path(description="Number of the node.", ge=1, lt=2**63)]
_SAME: Final = (
    "id",
    "created",
    "identifier",
    "do_not_run",
    "all_parents_must_converge",
    "slice_number",
    "start_failure",
)


class WorkflowJobNode(ShownPrompts):
    """One step of a run."""

    id: int = Field(description="Number of the node.")
    type: str = Field(description="Always `workflow_job_node`.")
    url: str = Field(description="Path of this object.")
    related: dict[str, str] = Field(description="Paths of what belongs to it, by name.")
    summary_fields: dict[str, Any] = Field(description="What its related objects are called.")
    created: datetime = Field(description="When its run was launched.")
    identifier: str = Field(description="Its name, unique in the workflow.")
    workflow_job: int = Field(description="The run that it belongs to.")
    job: int | None = Field(description="Its job; null until it has one.")
    unified_job_template: int | None = Field(description="Number of what it launches.")
    unified_job_type: str = Field(
        description="What it launches: `job`, `workflow_job`, `project_update`, `inventory_update`"
        " or `workflow_approval`."
    )
    success_nodes: list[int] = Field(description="Nodes that follow its success.")
    failure_nodes: list[int] = Field(description="Nodes that follow its failure.")
    always_nodes: list[int] = Field(description="Nodes that follow it in any case.")
    all_parents_must_converge: bool = Field(
        description="Whether it runs only if every node before it leads to it."
    )
    do_not_run: bool = Field(description="Whether it is decided that it will not run.")
    slice_number: int = Field(description="Of a launch in slices: its slice, from 1.")
    start_failure: str = Field(description="Why no job could be made of it; it failed then.")


def _render(connection: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    children = queries.read_children(connection, [row["id"] for row in rows], of_runs=True)
    names = queries.read_spawned(
        connection, {(r["spawns"], r["template_id"]) for r in rows if r["template_id"] is not None}
    )
    return [_one(row, children.get(row["id"], {}), names) for row in rows]


def _one(
    row: Row, children: dict[str, list[int]], names: dict[tuple[str, int], str]
) -> dict[str, Any]:
    template = shown_template(row["spawns"], row["template_id"], names)
    related = {"workflow_job": url_of("workflow_jobs", row["workflow_job_id"]), **template.related}
    summary: dict[str, Any] = {
        "workflow_job": {
            "id": row["workflow_job_id"],
            "name": row["workflow_name"],
            "description": "",
        },
        **template.summary,
    }
    if row["job_id"] is not None:
        related["job"] = job_url(Kind(row["job_kind"]), row["job_id"])
        summary["job"] = _job(row)
    return {
        **shown_prompts(row["prompts"]),
        **{name: row[name] for name in _SAME},
        **{f"{kind}_nodes": children.get(kind, []) for kind in ("success", "failure", "always")},
        "type": "workflow_job_node",
        "url": url_of("workflow_job_nodes", row["id"]),
        "related": related,
        "summary_fields": summary,
        "workflow_job": row["workflow_job_id"],
        "job": row["job_id"],
        "unified_job_template": row["template_id"],
        "unified_job_type": TEMPLATE_KINDS[row["spawns"]].job_type,
    }


def _job(row: Row) -> dict[str, Any]:
    started, finished, status = row["job_started"], row["job_finished"], row["job_status"]
    elapsed = 0.0
    if started is not None and finished is not None:
        elapsed = round((finished - started).total_seconds(), 3)
    return {
        "id": row["job_id"],
        "name": row["job_name"],
        "description": "",
        "type": TYPES[Kind(row["job_kind"])],
        "status": status,
        "failed": status in FINAL and status != Status.SUCCESSFUL,
        "elapsed": elapsed,
    }


@router.get(
    "/workflow_job_nodes/",
    summary="List the nodes of workflow jobs",
    response_model=Page[WorkflowJobNode],
    openapi_extra=filters_of(queries.run_node_listing()),
)
def list_nodes(caller: CallerParameter, query: ListQueryParameter) -> dict[str, Any]:
    """The steps of all runs."""
    with caller.reading() as connection:
        return read_list(
            connection,
            query,
            queries.run_node_listing(),
            lambda rows: _render(connection, rows),
        )


@router.get(
    "/workflow_job_nodes/{node_id}/",
    summary="One node of a workflow job",
    response_model=WorkflowJobNode,
)
def get_node(caller: CallerParameter, node_id: NodeId) -> dict[str, Any]:
    """One step of a run, with its job."""
    with caller.reading() as connection:
        row = db.read_one(connection, queries.run_node_listing(), node_id)
        if row is None:
            raise NotFound
        return _render(connection, [row])[0]


@router.get(
    "/workflow_jobs/{job_id}/workflow_nodes/",
    summary="List the nodes of a workflow job",
    response_model=Page[WorkflowJobNode],
    openapi_extra=filters_of(queries.run_node_listing()),
)
def list_nodes_of_job(
    caller: CallerParameter, query: ListQueryParameter, job_id: JobId
) -> dict[str, Any]:
    """The steps of one run, with their jobs."""
    with caller.reading() as connection:
        read_workflow(connection, job_id)
        return read_list(
            connection,
            query,
            queries.run_node_listing(job_id),
            lambda rows: _render(connection, rows),
        )
