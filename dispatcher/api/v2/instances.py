"""``instances/``: the nodes, as the dialect calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from dispatcher.api.auth import CallerParameter
from dispatcher.api.v2.nodes import capacity_of, errors_of, percent_remaining, takes_jobs
from dispatcher.api.v2.resource import (
    ListQuery,
    ListQueryParameter,
    Page,
    Row,
    filters_of,
    read_list,
    url_of,
)
from dispatcher.db import node_queries
from dispatcher.errors import NotFound

router = APIRouter(prefix="/api/v2/instances", tags=["instances"])


class Instance(BaseModel):
    """A node: a machine of ours that runs playbooks."""

    id: int = Field(description="Number of the node.")
    type: str = Field(description="Always `instance`.")
    url: str = Field(description="Path of this object.")
    related: dict[str, str] = Field(description="Paths of what belongs to it, by name.")
    summary_fields: dict[str, Any] = Field(description="Empty.")
    uuid: str = Field(description="Identity of the node, which outlives its name.")
    hostname: str = Field(description="Name of the node.")
    created: datetime = Field(description="When it first registered.")
    modified: datetime = Field(description="When its row last changed.")
    last_seen: datetime | None = Field(description="When it last renewed its lease.")
    errors: str = Field(description="Why it takes no jobs; empty when it does.")
    node_type: str = Field(description="Always `execution`.")
    node_state: str = Field(description="`ready`, or `unavailable` when its lease is not alive.")
    state: str = Field(description="State of its lease: `alive`, `suspect`, `lost` or `left`.")
    enabled: bool = Field(description="False: switched off by an operator.")
    draining: bool = Field(description="True: it ends its jobs and takes no new ones.")
    accepting: bool = Field(description="False: it says that it takes no jobs now.")
    takes_jobs: bool = Field(description="Whether a job may be started on it now.")
    version: str = Field(description="Version of its software.")
    capacity: int = Field(
        description="What it can hold, in units of impact; 0 when disabled, draining or lost."
    )
    consumed_capacity: int = Field(description="Impact of its waiting and running jobs.")
    percent_capacity_remaining: float = Field(description="Free part of its capacity.")
    capacity_adjustment: float = Field(
        description="0: capacity is the smaller of `cpu_capacity` and `mem_capacity`, 1: the larger."
    )
    cpu: float = Field(description="CPUs that it may use; a fraction in a limited container.")
    memory: int = Field(description="Bytes of memory that it may use.")
    cpu_capacity: int = Field(description="Capacity by CPUs.")
    mem_capacity: int = Field(description="Capacity by memory.")
    max_jobs: int = Field(description="Most jobs at once, whatever their impact.")
    jobs_running: int = Field(description="Its waiting and running jobs.")
    jobs_total: int = Field(description="All jobs that it was given.")
    managed: bool = Field(description="Always false.")


def _render(row: Row, totals: Mapping[int, int]) -> dict[str, Any]:
    capacity = capacity_of(row)
    return {
        "id": row["id"],
        "type": "instance",
        "url": url_of("instances", row["id"]),
        "related": {"jobs": f"/api/v2/jobs/?execution_node={row['name']}"},
        "summary_fields": {},
        "uuid": str(row["identity"]),
        "hostname": row["name"],
        "created": row["created"],
        "modified": row["modified"],
        "last_seen": row["renewed_at"],
        "errors": errors_of(row),
        "node_type": "execution",
        "node_state": "ready" if row["state"] == "alive" else "unavailable",
        "state": row["state"],
        "enabled": row["enabled"],
        "draining": row["draining"],
        "accepting": row["accepting"],
        "takes_jobs": takes_jobs(row),
        "version": row["version"],
        "capacity": capacity,
        "consumed_capacity": row["consumed"],
        "percent_capacity_remaining": percent_remaining(capacity, row["consumed"]),
        "capacity_adjustment": row["capacity_adjustment"],
        "cpu": row["cpus"],
        "memory": row["memory"],
        "cpu_capacity": row["cpu_capacity"],
        "mem_capacity": row["mem_capacity"],
        "max_jobs": row["max_jobs"],
        "jobs_running": row["running"],
        "jobs_total": totals.get(row["id"], 0),
        "managed": False,
    }


def read_instances(
    connection: Connection, query: ListQuery, group_id: int | None = None
) -> dict[str, Any]:
    """A page of nodes, of one group if it is given."""

    def render(rows: Sequence[Row]) -> list[dict[str, Any]]:
        totals = node_queries.count_jobs_by_node(connection, [row["id"] for row in rows])
        return [_render(row, totals) for row in rows]

    return read_list(connection, query, node_queries.node_listing(group_id=group_id), render)


@router.get(
    "/",
    summary="List the nodes",
    response_model=Page[Instance],
    openapi_extra=filters_of(node_queries.node_listing()),
)
def list_instances(caller: CallerParameter, query: ListQueryParameter) -> dict[str, Any]:
    """Every node that is not removed."""
    with caller.reading() as connection:
        return read_instances(connection, query)


@router.get("/{instance_id}/", summary="One node", response_model=Instance)
def get_instance(
    caller: CallerParameter,
    instance_id: Annotated[int, Path(description="Number of the node.", ge=1, lt=2**63)],
) -> dict[str, Any]:
    """Capacity, load and state of a node."""
    with caller.reading() as connection:
        row = node_queries.read_node(connection, instance_id)
        if row is None:
            raise NotFound
        return _render(row, node_queries.count_jobs_by_node(connection, [instance_id]))
