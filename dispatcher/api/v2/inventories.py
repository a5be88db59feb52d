"""``inventories/``: what playbooks run on, with their hosts, groups and sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pydantic import Field
from sqlalchemy import Connection

from dispatcher.actions import save_inventory as save
from dispatcher.api.v2 import groups, hosts, inventory_sources, objects
from dispatcher.api.v2.object_form import Stored, capabilities, named, stored
from dispatcher.api.v2.resource import ROOT, Row, url_of
from dispatcher.api.v2.variables import WithVariables, add_variable_data
from dispatcher.broker.messages import Owed
from dispatcher.db import inventory_queries as queries
from dispatcher.db.listing import Listing
from dispatcher.domain.variables_text import show_variables


class Inventory(Stored):
    """Hosts and groups that playbooks run on."""

    organization: int = Field(description="Organization that it belongs to.")
    kind: str = Field(description="Always empty: an ordinary inventory.")
    host_filter: str | None = Field(description="Always null.")
    variables: str = Field(description="Variables of all its hosts, as JSON text.")
    revision: int = Field(description="Raised by each change of what it means to a job.")
    host_count: int = Field(description="How many hosts are enabled.")
    total_hosts: int = Field(description="How many hosts it has, disabled ones included.")
    total_groups: int = Field(description="How many groups it has.")
    total_inventory_sources: int = Field(description="How many sources it has.")
    has_inventory_sources: bool = Field(description="Whether it has any.")
    has_active_failures: bool = Field(description="Always false: not kept.")
    hosts_with_active_failures: int = Field(description="Always 0: not kept.")
    inventory_sources_with_failures: int = Field(description="Always 0: not kept.")
    pending_deletion: bool = Field(description="Always false: a delete is done when answered.")
    prevent_instance_group_fallback: bool = Field(description="Always false.")


class InventoryChanges(WithVariables):
    """What can be changed of an inventory."""

    name: str = Field("", description="Unique in its organization.", examples=["production"])
    organization: int = Field(0, description="Number of its organization.", examples=[1])
    description: str = Field("", description="What it is for, in words.")


class NewInventory(InventoryChanges):
    """An inventory to be made."""

    name: str = Field(description="Unique in its organization.", examples=["production"])
    organization: int = Field(description="Number of its organization.", examples=[1])


def _render(connection: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    counts = queries.count_members(connection, [row["id"] for row in rows])
    return [_one(row, {kind: c.get(row["id"], 0) for kind, c in counts.items()}) for row in rows]


def _one(row: Row, counts: dict[str, int]) -> dict[str, Any]:
    url = url_of("inventories", row["id"])
    inside = ("hosts", "groups", "inventory_sources", "variable_data")
    return {
        **stored(row, "inventory", "inventories"),
        "organization": row["organization_id"],
        "kind": "",
        "host_filter": None,
        "variables": show_variables(row["variables"]),
        "revision": row["revision"],
        "host_count": row["host_count"],
        "total_hosts": counts["hosts"],
        "total_groups": counts["groups"],
        "total_inventory_sources": counts["sources"],
        "has_inventory_sources": counts["sources"] > 0,
        "related": {
            **{name: f"{url}{name}/" for name in inside},
            "organization": url_of("organizations", row["organization_id"]),
            "inventory_updates": f"{ROOT}inventory_updates/?inventory={row['id']}",
        },
        "summary_fields": {
            "organization": named(row["organization_id"], row["organization_name"]),
            "user_capabilities": capabilities(adhoc=False),
        },
        "has_active_failures": False,
        "hosts_with_active_failures": 0,
        "inventory_sources_with_failures": 0,
        "pending_deletion": False,
        "prevent_instance_group_fallback": False,
    }


def _create(connection: Connection, values: dict[str, Any], by: str) -> tuple[int, Owed]:
    return save.create_inventory(connection, values), Owed()


def _change(connection: Connection, inventory_id: int, values: dict[str, Any], by: str) -> Owed:
    return save.change_inventory(connection, inventory_id, values)


def _delete(connection: Connection, inventory_id: int) -> Owed:
    save.delete_inventory(connection, inventory_id)
    return Owed()


INVENTORY: Final = objects.Noun(
    word="inventory",
    resource="inventories",
    key="inventory_id",
    tag="inventories",
    model=Inventory,
    new=NewInventory,
    changes=InventoryChanges,
    subject=save.INVENTORY,
    listing=queries.inventory_listing,
    render=_render,
    create=_create,
    change=_change,
    delete=_delete,
)

router = INVENTORY.router()
objects.add_routes(router, INVENTORY)
add_variable_data(router, INVENTORY)


def _add_inside(
    path: str,
    member: objects.Noun,
    listing: Callable[[int], Listing],
    body: type[objects.Body],
) -> None:
    what = f"the {member.many} of one inventory"
    objects.add_list_inside(router, INVENTORY, path, member, listing, what=what)
    objects.add_create_inside(router, INVENTORY, path, member, "inventory", body)


_add_inside(
    "hosts", hosts.HOST, lambda n: queries.host_listing(inventory_id=n), hosts.HostInInventory
)
_add_inside(
    "groups", groups.GROUP, lambda n: queries.group_listing(inventory_id=n), groups.GroupInInventory
)
_add_inside(
    "inventory_sources",
    inventory_sources.SOURCE,
    lambda n: queries.source_listing(inventory_id=n),
    inventory_sources.SourceInInventory,
)
