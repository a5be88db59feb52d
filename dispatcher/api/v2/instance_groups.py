"""``instance_groups/``: sets of nodes that jobs are started through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from dispatcher.api.auth import CallerParameter
from dispatcher.api.v2.instances import Instance, read_instances
from dispatcher.api.v2.nodes import capacity_of, percent_remaining
from dispatcher.api.v2.resource import (
    ListQueryParameter,
    Page,
    Row,
    filters_of,
    read_list,
    url_of,
)
from dispatcher.db import node_queries
from dispatcher.errors import NotFound

router = APIRouter(prefix="/api/v2/instance_groups", tags=["instances"])

GroupId = Annotated[int, Path(description="Number of the instance group.", ge=1, lt=2**63)]


class InstanceGroup(BaseModel):
    """A set of nodes."""

    id: int = Field(description="Number of the group.")
    type: str = Field(description="Always `instance_group`.")
    url: str = Field(description="Path of this object.")
    related: dict[str, str] = Field(description="Paths of what belongs to it, by name.")
    summary_fields: dict[str, Any] = Field(description="Empty.")
    name: str = Field(description="Name of the group.")
    created: datetime = Field(description="When it was made.")
    modified: datetime = Field(description="When it last changed.")
    capacity: int = Field(description="Sum of its nodes' capacities.")
    consumed_capacity: int = Field(
        description="Impact of the waiting and running jobs that were started through it."
    )
    percent_capacity_remaining: float = Field(description="Free part of its capacity.")
    jobs_running: int = Field(description="Waiting and running jobs that were started through it.")
    jobs_total: int = Field(description="All jobs that were started through it.")
    max_concurrent_jobs: int = Field(description="Most such jobs at once; 0: no limit.")
    max_forks: int = Field(description="Most forks of such jobs at once; 0: no limit.")
    instances: int = Field(description="How many nodes it has.")
    is_container_group: bool = Field(description="Always false.")
    credential: None = Field(description="Always null.")
    policy_instance_percentage: int = Field(description="Always 0.")
    policy_instance_minimum: int = Field(description="Always 0.")
    policy_instance_list: list[str] = Field(description="Always empty.")
    pod_spec_override: str = Field(description="Always empty.")


class _Members:
    """What the groups' rows do not say: capacity, number of nodes, number of all jobs."""

    def __init__(self, connection: Connection, group_ids: list[int]) -> None:
        nodes = {row["id"]: capacity_of(row) for row in node_queries.read_nodes(connection)}
        self.capacity: dict[int, int] = {}
        self.count: dict[int, int] = {}
        for group_id, node_id in node_queries.read_members(connection):
            self.capacity[group_id] = self.capacity.get(group_id, 0) + nodes.get(node_id, 0)
            self.count[group_id] = self.count.get(group_id, 0) + 1
        self.totals: Mapping[int, int] = node_queries.count_jobs_by_group(connection, group_ids)


def _render(row: Row, members: _Members) -> dict[str, Any]:
    group_id = row["id"]
    url = url_of("instance_groups", group_id)
    capacity = members.capacity.get(group_id, 0)
    return {
        "id": group_id,
        "type": "instance_group",
        "url": url,
        "related": {
            "instances": f"{url}instances/",
            "jobs": f"/api/v2/jobs/?instance_group={group_id}",
        },
        "summary_fields": {},
        "name": row["name"],
        "created": row["created"],
        "modified": row["modified"],
        "capacity": capacity,
        "consumed_capacity": row["consumed"],
        "percent_capacity_remaining": percent_remaining(capacity, row["consumed"]),
        "jobs_running": row["running"],
        "jobs_total": members.totals.get(group_id, 0),
        "max_concurrent_jobs": row["max_concurrent_jobs"],
        "max_forks": row["max_forks"],
        "instances": members.count.get(group_id, 0),
        "is_container_group": False,
        "credential": None,
        "policy_instance_percentage": 0,
        "policy_instance_minimum": 0,
        "policy_instance_list": [],
        "pod_spec_override": "",
    }


@router.get(
    "/",
    summary="List the instance groups",
    response_model=Page[InstanceGroup],
    openapi_extra=filters_of(node_queries.group_listing()),
)
def list_groups(caller: CallerParameter, query: ListQueryParameter) -> dict[str, Any]:
    """Every instance group."""
    with caller.reading() as connection:

        def render(rows: Sequence[Row]) -> list[dict[str, Any]]:
            members = _Members(connection, [row["id"] for row in rows])
            return [_render(row, members) for row in rows]

        return read_list(connection, query, node_queries.group_listing(), render)


@router.get("/{group_id}/", summary="One instance group", response_model=InstanceGroup)
def get_group(caller: CallerParameter, group_id: GroupId) -> dict[str, Any]:
    """Capacity and load of a group."""
    with caller.reading() as connection:
        row = node_queries.read_group(connection, group_id)
        if row is None:
            raise NotFound
        return _render(row, _Members(connection, [group_id]))


@router.get(
    "/{group_id}/instances/",
    summary="List a group's nodes",
    response_model=Page[Instance],
    openapi_extra=filters_of(node_queries.node_listing()),
)
def list_group_instances(
    caller: CallerParameter, query: ListQueryParameter, group_id: GroupId
) -> dict[str, Any]:
    """The nodes of one group."""
    with caller.reading() as connection:
        if node_queries.read_group(connection, group_id) is None:
            raise NotFound
        return read_instances(connection, query, group_id)
