"""``hosts/``: the managed machines of stored inventories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field
from sqlalchemy import Connection

from dispatcher.actions import save_inventory as save
from dispatcher.api.v2 import objects
from dispatcher.api.v2.object_form import Stored, capabilities, named, stored
from dispatcher.api.v2.resource import Row, url_of
from dispatcher.api.v2.variables import WithVariables, add_variable_data
from dispatcher.broker.messages import Owed
from dispatcher.db import inventory_queries as queries
from dispatcher.domain.variables_text import show_variables

#: Groups of a host that are named in its summary.
_MOST_GROUPS: Final = 5


class Host(Stored):
    """A managed machine in an inventory."""

    inventory: int = Field(description="Inventory that it belongs to.")
    enabled: bool = Field(description="Whether jobs run on it.")
    variables: str = Field(description="Its own variables, as JSON text.")
    address: str | None = Field(
        description="Where a connection goes, by its and its groups' variables; null: known only"
        " to Ansible. Host locks go by it."
    )
    inventory_source: int | None = Field(description="Source that brought it; null: by hand.")
    gone: bool = Field(description="Whether its source does not name it any more.")
    instance_id: str = Field(description="Always empty.")
    has_active_failures: bool = Field(description="Always false: not kept.")
    has_inventory_sources: bool = Field(description="Whether a source brought it.")
    last_job: int | None = Field(description="Always null: not kept.")
    last_job_host_summary: int | None = Field(description="Always null: not kept.")


class HostChanges(WithVariables):
    """What can be changed of a host."""

    name: str = Field("", description="Unique in its inventory; one word.", examples=["web1"])
    description: str = Field("", description="What it is for, in words.")
    enabled: bool = Field(True, description="Whether jobs run on it.")
    inventory: int = Field(0, description="Number of its inventory; never changes.", examples=[1])


class HostInInventory(HostChanges):
    """A host to be made in an inventory that the path names."""

    name: str = Field(description="Unique in its inventory; one word.", examples=["web1"])


class NewHost(HostInInventory):
    """A host to be made."""

    inventory: int = Field(description="Number of its inventory; never changes.", examples=[1])


def _render(connection: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    around = queries.read_groups_of(connection, [row["id"] for row in rows], most=_MOST_GROUPS)
    return [_one(row, around.get(row["id"], [])) for row in rows]


def _one(row: Row, around: Sequence[Row]) -> dict[str, Any]:
    url = url_of("hosts", row["id"])
    return {
        **stored(row, "host", "hosts"),
        "inventory": row["inventory_id"],
        "enabled": row["enabled"],
        "variables": show_variables(row["variables"]),
        "address": row["address"],
        "inventory_source": row["inventory_source_id"],
        "gone": row["gone"],
        "has_inventory_sources": row["inventory_source_id"] is not None,
        "related": {
            "inventory": url_of("inventories", row["inventory_id"]),
            **{name: f"{url}{name}/" for name in ("variable_data", "groups")},
        },
        "summary_fields": {
            "inventory": {
                **named(row["inventory_id"], row["inventory_name"]),
                "organization_id": row["organization_id"],
            },
            "groups": {
                "count": around[0]["total"] if around else 0,
                "results": [{"id": g["id"], "name": g["name"]} for g in around],
            },
            "user_capabilities": capabilities(),
        },
        "instance_id": "",
        "has_active_failures": False,
        "last_job": None,
        "last_job_host_summary": None,
    }


def _create(connection: Connection, values: dict[str, Any], by: str) -> tuple[int, Owed]:
    return save.create_host(connection, values)


def _change(connection: Connection, host_id: int, values: dict[str, Any], by: str) -> Owed:
    return save.change_host(connection, host_id, values)


HOST: Final = objects.Noun(
    word="host",
    resource="hosts",
    key="host_id",
    tag="inventories",
    model=Host,
    new=NewHost,
    changes=HostChanges,
    subject=save.HOST,
    listing=queries.host_listing,
    render=_render,
    create=_create,
    change=_change,
    delete=save.delete_host,
)

router = HOST.router()
objects.add_routes(router, HOST)
add_variable_data(router, HOST)
