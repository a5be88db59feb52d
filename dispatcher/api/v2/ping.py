"""``ping/``: the cluster at a glance, without a token."""

from __future__ import annotations

import socket
from collections import defaultdict
from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, Field

from dispatcher import __version__
from dispatcher.api.services import ServicesParameter
from dispatcher.db import node_queries
from dispatcher.domain.node_state import capacity_of

router = APIRouter(prefix="/api/v2/ping", tags=["cluster"])


class PingInstance(BaseModel):
    """A node."""

    node: str = Field(description="Name of the node.")
    node_type: str = Field(description="Always `execution`.")
    uuid: str = Field(description="Identity of the node, which outlives its name.")
    heartbeat: datetime | None = Field(description="When it last renewed its lease.")
    capacity: int = Field(description="What it can hold, in units of impact; 0 when it is away.")
    version: str = Field(description="Version of its software.")


class PingGroup(BaseModel):
    """An instance group."""

    name: str = Field(description="Name of the group.")
    capacity: int = Field(description="Sum of its nodes' capacities.")
    instances: list[str] = Field(description="Names of its nodes.")


class Ping(BaseModel):
    """The cluster at a glance."""

    ha: bool = Field(description="Whether there is more than one node.")
    version: str = Field(description="Version of this server.")
    active_node: str = Field(description="Name of the machine that answered.")
    install_uuid: str = Field(description="Empty: installations have no id.")
    instances: list[PingInstance] = Field(description="The nodes.")
    instance_groups: list[PingGroup] = Field(description="The instance groups.")


@router.get("/", summary="The cluster at a glance", response_model=Ping)
def ping(services: ServicesParameter) -> dict[str, object]:
    """Nodes and instance groups; needs no token."""
    with services.reading() as connection:
        nodes = {row["id"]: row for row in node_queries.read_nodes(connection)}
        groups = node_queries.read_groups(connection)
        members = node_queries.read_members(connection)
    grouped: dict[int, list[int]] = defaultdict(list)
    for group_id, node_id in members:
        grouped[group_id].append(node_id)
    return {
        "ha": len(nodes) > 1,
        "version": __version__,
        "active_node": socket.gethostname(),
        "install_uuid": "",
        "instances": [
            {
                "node": row["name"],
                "node_type": "execution",
                "uuid": str(row["identity"]),
                "heartbeat": row["renewed_at"],
                "capacity": capacity_of(row),
                "version": row["version"],
            }
            for row in nodes.values()
        ],
        "instance_groups": [
            {
                "name": group["name"],
                "capacity": sum(capacity_of(nodes[n]) for n in grouped[group["id"]]),
                "instances": [nodes[n]["name"] for n in grouped[group["id"]]],
            }
            for group in groups
        ],
    }
