"""A job's inventory from the tables, as one JSON text in Ansible's YAML form."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection

from dispatcher import clock
from dispatcher.db.node_rows import JobHosts
from dispatcher.db.stored_inventory import StoredInventory, read_inventory
from dispatcher.domain.host_pattern import resolve
from dispatcher.domain.inventory import Inventory, InventoryError
from dispatcher.domain.targets import sliced


def render_inventory(connection: Connection, wanted: JobHosts) -> dict[str, Any]:
    """The job's ``inventory`` and ``limit_pattern``.

    All enabled hosts, because a play may look at the variables of any, and the limit is Ansible's
    to apply; but a slice, and a job whose inventory has moved since its hosts were locked, get
    exactly their own hosts and no limit.

    Args:
        connection: under repeatable read, so that revision and hosts are of one moment.

    Raises:
        InventoryError, PatternError: the inventory or the limit cannot be resolved any more.
    """
    stored = read_inventory(connection, wanted.inventory_id)
    if stored is None:
        raise InventoryError("it was deleted")
    moved = bool(wanted.lock_keys) and stored.revision != wanted.revision
    if not moved and not wanted.slice_number:
        return {"inventory": inventory_text(stored.inventory), "limit_pattern": wanted.limit}
    found = resolve("all", wanted.limit, stored.inventory, cpu=clock.thread_cpu)
    hosts = sliced(found, wanted.slice_number, wanted.slice_count)
    if moved:
        hosts = _locked(stored, wanted, hosts)
    return {"inventory": inventory_text(stored.inventory, hosts), "limit_pattern": ""}


def _locked(stored: StoredInventory, wanted: JobHosts, hosts: Collection[str]) -> tuple[str, ...]:
    """Those hosts that the job holds a lock on; what came later is not touched."""
    whole = f"inventory:{wanted.inventory_id}" in wanted.lock_keys
    held = set(wanted.lock_keys)

    def is_held(host: str) -> bool:
        address = stored.addresses.get(host)
        return whole if address is None else f"host:{address}" in held

    return tuple(host for host in hosts if is_held(host))


def inventory_text(inventory: Inventory, hosts: Collection[str] | None = None) -> str:
    """The text of an inventory.

    Args:
        hosts: only these; None: all.
    """
    kept = None if hosts is None else set(hosts)

    def wanted(names: Collection[str]) -> dict[str, dict[str, Any]]:
        return {name: {} for name in names if kept is None or name in kept}

    document: dict[str, Any] = {}
    for name, group in inventory.groups.items():
        document[name] = {
            "hosts": wanted(group.hosts),
            "vars": dict(group.variables),
            "children": {child: {} for child in group.children},
        }
    document["all"]["hosts"] = {
        host: dict(inventory.own_variables(host))
        for host in inventory.hosts
        if kept is None or host in kept
    }
    return json.dumps(document)
