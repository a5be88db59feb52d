"""Hosts, impact and locks of jobs of one stored inventory: it is read once for all of them, and no
more of it than their limits need."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from dispatcher import clock
from dispatcher.db.stored_inventory import StoredInventory, read_inventory
from dispatcher.domain.host_pattern import PatternError, names_of
from dispatcher.domain.launch import Targets
from dispatcher.domain.targets import HostChoice, find_targets, holds_inventory


def find_stored_targets(
    connection: Connection, inventory_id: int, choices: Sequence[HostChoice]
) -> tuple[int, list[Targets | str]] | None:
    """What each job that needs its hosts by name works on.

    Returns:
        The inventory's revision, and for each choice its targets or what is wrong with its limit;
        None if there is no such inventory.

    Raises:
        InventoryError: its groups are children of each other.
    """
    # a variable may give every host its address and leave the port to each
    variables = any(each.moves_hosts for each in choices)
    names = _names(choices)
    stored = read_inventory(connection, inventory_id, variables=variables, names=names)
    if stored is None:
        return None
    found = _find(stored, choices)
    if names is not None and any(holds_inventory(each, inventory_id) for each in found):
        # of a machine that is not known: the job holds all others too
        stored = read_inventory(connection, inventory_id, variables=variables)
        if stored is None:
            return None
        found = _find(stored, choices)
    return stored.revision, found


def _names(choices: Collection[HostChoice]) -> set[str] | None:
    """The hosts and groups that the limits name; None: one of them needs all hosts."""
    names: set[str] = set()
    for limit in {each.limit for each in choices}:
        named = names_of(limit)
        if named is None:
            return None
        names |= named
    return names


def _find(stored: StoredInventory, choices: Sequence[HostChoice]) -> list[Targets | str]:
    known: dict[tuple[str, str, int, int, str], Targets | str] = {}
    found = []
    for each in choices:
        place = json.dumps(each.extra_vars) if each.moves_hosts else ""
        key = (each.limit, each.host_lock, each.slice_number, each.slice_count, place)
        if key not in known:
            known[key] = _targets(stored, each)
        found.append(known[key])
    return found


def _targets(stored: StoredInventory, choice: HostChoice) -> Targets | str:
    try:
        return find_targets(
            stored.id, stored.inventory, stored.addresses, choice, cpu=clock.thread_cpu
        )
    except PatternError as error:
        return str(error)
