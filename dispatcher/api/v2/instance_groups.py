"""``instance_groups/``: sets of nodes that jobs are started through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, Field
from sqlalchemy import Connection

from dispatcher.actions import save_instance_group as save
from dispatcher.api.v2 import instances, objects
from dispatcher.api.v2.instances import INSTANCE
from dispatcher.api.v2.resource import Row, url_of
from dispatcher.broker.messages import Owed
from dispatcher.db import node_queries
from dispatcher.domain.node_state import capacity_of, percent_remaining


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
    paused: bool = Field(description="Whether no jobs are started through it.")
    pause_reason: str = Field(description="Why it is paused, in words.")
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
        "paused": row["paused"],
        "pause_reason": row["pause_reason"],
        "instances": members.count.get(group_id, 0),
        "is_container_group": False,
        "credential": None,
        "policy_instance_percentage": 0,
        "policy_instance_minimum": 0,
        "policy_instance_list": [],
        "pod_spec_override": "",
    }


class InstanceGroupChanges(objects.Body):
    """What can be changed of an instance group."""

    name: str = Field("", description="Unique; nodes name the groups to join.", examples=["fast"])
    max_concurrent_jobs: int = Field(
        0, description="Most jobs that are started through it at once; 0: no limit."
    )
    max_forks: int = Field(0, description="Most forks of such jobs at once; 0: no limit.")
    paused: bool = Field(False, description="Whether no jobs are started through it.")
    pause_reason: str = Field("", description="Why it is paused; shown by jobs that wait for it.")


class NewInstanceGroup(InstanceGroupChanges):
    """An instance group to be made."""

    name: str = Field(description="Unique; nodes name the groups to join.", examples=["fast"])


def _render_all(connection: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    members = _Members(connection, [row["id"] for row in rows])
    return [_render(row, members) for row in rows]


def _put_node(connection: Connection, group_id: int, node_id: int, member: bool) -> Owed:
    return save.put_node(connection, group_id, node_id, member=member)


def _put_into(connection: Connection, node_id: int, group_id: int, member: bool) -> Owed:
    return save.put_node(connection, group_id, node_id, member=member)


INSTANCE_GROUP: Final = objects.Noun(
    word="instance group",
    resource="instance_groups",
    key="group_id",
    tag="instances",
    model=InstanceGroup,
    changes=InstanceGroupChanges,
    subject=save.INSTANCE_GROUP,
    listing=node_queries.group_listing,
    render=_render_all,
    change=save.change_group,
    new=NewInstanceGroup,
    create=save.create_group,
    delete=save.delete_group,
)

router = INSTANCE_GROUP.router()
objects.add_routes(router, INSTANCE_GROUP)
objects.add_list_inside(
    router,
    INSTANCE_GROUP,
    "instances",
    INSTANCE,
    lambda number: node_queries.node_listing(group_id=number),
    what="the nodes of one group",
)
objects.add_members(router, INSTANCE_GROUP, "instances", _put_node, what="a group's nodes")
# here, because groups know nodes and not the other way round
objects.add_list_inside(
    instances.router,
    INSTANCE,
    "instance_groups",
    INSTANCE_GROUP,
    lambda number: node_queries.group_listing(node_id=number),
    what="the groups of one node",
)
objects.add_members(
    instances.router, INSTANCE, "instance_groups", _put_into, what="the groups of a node"
)
