"""An inventory of the tables as the domain knows it: hosts, groups, addresses, revision."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

from dispatcher.domain.inventory import Inventory
from dispatcher.domain.inventory_builder import Builder


@dataclass(frozen=True)
class StoredInventory:
    """The enabled hosts of an inventory (disabled ones where asked for), and all of its groups.

    Attributes:
        revision: what the tables held when they were read.
        addresses: host → where a connection goes; None: only Ansible can know.
    """

    id: int
    revision: int
    inventory: Inventory
    addresses: Mapping[str, str | None]


def read_inventory(
    connection: Connection,
    inventory_id: int,
    *,
    variables: bool = True,
    disabled: bool = False,
    host_ids: Collection[int] | None = None,
    names: Collection[str] | None = None,
) -> StoredInventory | None:
    """Read one inventory, in four statements whatever its size.

    Read it under repeatable read, or with the inventory's row locked, where the revision must be
    exactly that of the hosts.

    Args:
        variables: false: without the hosts' and groups' variables, which patterns do not need.
        disabled: disabled hosts too.
        host_ids: these hosts only; None: all.
        names: only hosts of these names, and those of groups of these names and below; None: all.

    Raises:
        InventoryError: its groups are children of each other.
    """
    one = {"inventory": inventory_id}
    head = connection.execute(
        text("SELECT revision, variables FROM inventory WHERE id = :inventory"), one
    ).one_or_none()
    if head is None:
        return None
    column = "variables" if variables else "NULL AS variables"
    builder = Builder()
    _set_all(builder, "all", head.variables)
    groups: dict[int, str] = {}
    for row in connection.execute(
        text(f"SELECT id, name, {column} FROM inventory_group WHERE inventory_id = :inventory"
             " ORDER BY name"),
        one,
    ):  # fmt: skip
        groups[row.id] = builder.add_group(row.name)
        _set_all(builder, row.name, row.variables)
    links = connection.execute(
        text(
            "SELECT parent_id, child_id FROM inventory_group_child"
            " JOIN inventory_group ON id = parent_id WHERE inventory_id = :inventory"
        ),
        one,
    ).all()
    chosen = [] if disabled else ["enabled"]
    given: dict[str, Any] = {}
    if host_ids is not None:
        chosen.append("id = ANY(CAST(:ids AS bigint[]))")
        given["ids"] = list(host_ids)
    if names is not None:
        chosen.append(_NAMED)
        given |= {"names": list(names), "groups": _below(groups, links, names)}
    addresses = {}
    for row in connection.execute(
        text(
            f"""
            SELECT name, address, {column}, ARRAY(SELECT group_id FROM inventory_group_host
                WHERE host_id = inventory_host.id ORDER BY group_id) AS group_ids
            FROM inventory_host WHERE {" AND ".join(["inventory_id = :inventory", *chosen])}
            ORDER BY name
            """
        ),
        one | given,
    ):
        addresses[row.name] = row.address
        names = [groups[each] for each in row.group_ids if each in groups]
        builder.put_host(row.name, row.variables or {}, names[0] if names else "ungrouped")
        for name in names[1:]:
            builder.put_host(row.name, {}, name)
    for row in links:
        builder.add_child(groups[row.parent_id], groups[row.child_id])
    return StoredInventory(inventory_id, head.revision, builder.build(), addresses)


#: Hosts by their own names, and as members of groups: each by its index, which OR would not use, nor
#: would a recursive query in place of ``groups``: the planner must see how few they are.
_NAMED = """id IN (
    SELECT id FROM inventory_host
        WHERE inventory_id = :inventory AND name = ANY(CAST(:names AS text[]))
    UNION SELECT host_id FROM inventory_group_host
        WHERE group_id = ANY(CAST(:groups AS bigint[])))"""


def _below(
    groups: Mapping[int, str], links: Sequence[Row[Any]], names: Collection[str]
) -> list[int]:
    """The ids of the groups of these names, and of all groups below them."""
    children: dict[int, list[int]] = {}
    for link in links:
        children.setdefault(link.parent_id, []).append(link.child_id)
    wanted = set(names)
    found = dict.fromkeys(group for group, name in groups.items() if name in wanted)
    waiting = list(found)
    while waiting:
        new = [each for each in children.get(waiting.pop(), ()) if each not in found]
        found |= dict.fromkeys(new)
        waiting += new
    return list(found)


def _set_all(builder: Builder, owner: str, variables: Mapping[str, Any] | None) -> None:
    for name, value in (variables or {}).items():
        builder.set_variable(owner, name, value)
