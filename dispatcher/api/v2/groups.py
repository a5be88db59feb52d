"""``groups/``: the groups of stored inventories, with their hosts and child groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field
from sqlalchemy import Connection

from dispatcher.actions import save_inventory as save
from dispatcher.api.v2 import hosts, objects
from dispatcher.api.v2.object_form import Stored, capabilities, named, stored
from dispatcher.api.v2.resource import Row, url_of
from dispatcher.api.v2.variables import WithVariables, add_variable_data
from dispatcher.broker.messages import Owed
from dispatcher.db import inventory_queries as queries
from dispatcher.domain.variables_text import show_variables


class Group(Stored):
    """A group of hosts in an inventory."""

    inventory: int = Field(description="Inventory that it belongs to.")
    variables: str = Field(description="Its own variables, as JSON text.")
    inventory_source: int | None = Field(description="Source that brought it; null: by hand.")


class GroupChanges(WithVariables):
    """What can be changed of a group."""

    name: str = Field("", description="Unique in its inventory; one word.", examples=["web"])
    description: str = Field("", description="What it is for, in words.")
    inventory: int = Field(0, description="Number of its inventory; never changes.", examples=[1])


class GroupInInventory(GroupChanges):
    """A group to be made in an inventory that the path names."""

    name: str = Field(description="Unique in its inventory; one word.", examples=["web"])


class NewGroup(GroupInInventory):
    """A group to be made."""

    inventory: int = Field(description="Number of its inventory; never changes.", examples=[1])


def _render(connection: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [_one(row) for row in rows]


def _one(row: Row) -> dict[str, Any]:
    url = url_of("groups", row["id"])
    return {
        **stored(row, "group", "groups"),
        "inventory": row["inventory_id"],
        "variables": show_variables(row["variables"]),
        "inventory_source": row["inventory_source_id"],
        "related": {
            "inventory": url_of("inventories", row["inventory_id"]),
            **{name: f"{url}{name}/" for name in ("variable_data", "hosts", "children")},
        },
        "summary_fields": {
            "inventory": {
                **named(row["inventory_id"], row["inventory_name"]),
                "organization_id": row["organization_id"],
            },
            "user_capabilities": capabilities(copy=False),
        },
    }


def _create(connection: Connection, values: dict[str, Any], by: str) -> tuple[int, Owed]:
    return save.create_group(connection, values)


def _change(connection: Connection, group_id: int, values: dict[str, Any], by: str) -> Owed:
    return save.change_group(connection, group_id, values)


def _put_host(connection: Connection, group_id: int, host_id: int, member: bool) -> Owed:
    return save.put_host(connection, group_id, host_id, member=member)


def _put_child(connection: Connection, group_id: int, child_id: int, member: bool) -> Owed:
    return save.put_group(connection, group_id, child_id, member=member)


GROUP: Final = objects.Noun(
    word="group",
    resource="groups",
    key="group_id",
    tag="inventories",
    model=Group,
    new=NewGroup,
    changes=GroupChanges,
    subject=save.GROUP,
    listing=queries.group_listing,
    render=_render,
    create=_create,
    change=_change,
    delete=save.delete_group,
)

router = GROUP.router()
objects.add_routes(router, GROUP)
add_variable_data(router, GROUP)
objects.add_list_inside(
    router,
    GROUP,
    "hosts",
    hosts.HOST,
    lambda number: queries.host_listing(group_id=number),
    what="the hosts that were put into one group",
)
objects.add_members(router, GROUP, "hosts", _put_host, what="a group's hosts")
objects.add_list_inside(
    router,
    GROUP,
    "children",
    GROUP,
    lambda number: queries.group_listing(parent_id=number),
    what="the groups directly below one group",
)
objects.add_members(router, GROUP, "children", _put_child, what="a group's child groups")
# here, because groups know hosts and not the other way round
objects.add_list_inside(
    hosts.router,
    hosts.HOST,
    "groups",
    GROUP,
    lambda number: queries.group_listing(host_id=number),
    what="the groups that one host was put into",
)
