"""An inventory of the tables as the domain knows it: hosts, groups, addresses, revision."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

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
) -> StoredInventory | None:
    """Read one inventory, in four statements whatever its size.

    Read it under repeatable read, or with the inventory's row locked, where the revision must be
    exactly that of the hosts.

    Args:
        variables: false: without the hosts' and groups' variables, which patterns do not need.
        disabled: disabled hosts too.
        host_ids: these hosts only; None: all.

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
    if variables:
        _set_all(builder, "all", head.variables)
    groups: dict[int, str] = {}
    for row in connection.execute(
        text(f"SELECT id, name, {column} FROM inventory_group WHERE inventory_id = :inventory"
             " ORDER BY name"),
        one,
    ):  # fmt: skip
        groups[row.id] = builder.add_group(row.name)
        _set_all(builder, row.name, row.variables)
    addresses = {}
    for row in connection.execute(
        text(
            f"""
            SELECT name, address, {column}, ARRAY(SELECT group_id FROM inventory_group_host
                WHERE host_id = inventory_host.id ORDER BY group_id) AS group_ids
            FROM inventory_host WHERE inventory_id = :inventory AND (enabled OR :disabled)
              AND (CAST(:ids AS bigint[]) IS NULL OR id = ANY(CAST(:ids AS bigint[])))
            ORDER BY name
            """
        ),
        one | {"disabled": disabled, "ids": None if host_ids is None else list(host_ids)},
    ):
        addresses[row.name] = row.address
        names = [groups[each] for each in row.group_ids if each in groups]
        builder.put_host(row.name, row.variables or {}, names[0] if names else "ungrouped")
        for name in names[1:]:
            builder.put_host(row.name, {}, name)
    for row in connection.execute(
        text(
            "SELECT parent_id, child_id FROM inventory_group_child"
            " JOIN inventory_group ON id = parent_id WHERE inventory_id = :inventory"
        ),
        one,
    ):
        builder.add_child(groups[row.parent_id], groups[row.child_id])
    return StoredInventory(inventory_id, head.revision, builder.build(), addresses)


def _set_all(builder: Builder, owner: str, variables: Mapping[str, Any] | None) -> None:
    for name, value in (variables or {}).items():
        builder.set_variable(owner, name, value)
