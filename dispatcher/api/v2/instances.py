"""``instances/``: the nodes, as the dialect calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from sqlalchemy import Connection

from dispatcher.actions import save_node as save
from dispatcher.api.v2 import objects
from dispatcher.api.v2.resource import Row, url_of
from dispatcher.broker.messages import Owed
from dispatcher.db import node_queries
from dispatcher.domain.node_state import capacity_of, errors_of, percent_remaining, takes_jobs


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
    capacity, url = capacity_of(row), url_of("instances", row["id"])
    return {
        "id": row["id"],
        "type": "instance",
        "url": url,
        "related": {
            "jobs": f"/api/v2/jobs/?{urlencode({'execution_node': row['name']})}",
            **{name: f"{url}{name}/" for name in ("drain", "instance_groups")},
        },
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


class InstanceChanges(objects.Body):
    """What operators can change of a node."""

    enabled: bool = Field(True, description="False: no more jobs are started on it.")
    draining: bool = Field(
        False, description="True: the same, to empty it; `instances/N/drain/` shows what runs."
    )
    capacity_adjustment: float = Field(
        1.0,
        description="0: its capacity is the smaller of `cpu_capacity` and `mem_capacity`, 1: the"
        " larger. From then on the node's own setting does not count.",
    )


def _render_all(connection: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    totals = node_queries.count_jobs_by_node(connection, [row["id"] for row in rows])
    return [_render(row, totals) for row in rows]


def _change(connection: Connection, node_id: int, values: dict[str, Any], by: str) -> Owed:
    return save.change_node(connection, node_id, values)


INSTANCE: Final = objects.Noun(
    word="instance",
    resource="instances",
    key="instance_id",
    tag="instances",
    model=Instance,
    changes=InstanceChanges,
    subject=save.NODE,
    listing=node_queries.node_listing,
    render=_render_all,
    change=_change,
)

router = INSTANCE.router()
objects.add_list(router, INSTANCE)
objects.add_read(router, INSTANCE)
objects.add_changes(router, INSTANCE, put=False)
