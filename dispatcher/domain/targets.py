"""Which hosts a job of a template works on, what they weigh, and what it locks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dispatcher.domain.host_pattern import resolve
from dispatcher.domain.inventory_data import ADDRESS_VARIABLES, PORT_VARIABLES, Inventory
from dispatcher.domain.launch import Targets
from dispatcher.domain.slices import hosts_of_slice

_PLACE: Final = frozenset((*ADDRESS_VARIABLES, *PORT_VARIABLES))


def effective_lock(host_lock: str, *, check_mode: bool) -> str:
    """The lock that is taken: a run in check mode changes nothing, so it shares."""
    return "shared" if check_mode and host_lock == "exclusive" else host_lock


def sliced(hosts: Sequence[str], number: int, count: int) -> tuple[str, ...]:
    """The hosts of one slice: host i, in order of names, belongs to slice ``i mod count + 1``.

    Args:
        number: from 1; 0: not sliced.
    """
    if number == 0 or count <= 1:
        return tuple(hosts)
    return hosts_of_slice(sorted(hosts), number, count)


@dataclass(frozen=True)
class HostChoice:
    """What says which hosts of its inventory a job works on, and whether it locks them.

    Attributes:
        extra_vars: may say where every host is.
        slice_number: 0: not sliced.
    """

    limit: str
    host_lock: str
    extra_vars: Mapping[str, Any]
    slice_number: int = 0
    slice_count: int = 1

    @property
    def by_name(self) -> bool:
        """Whether the hosts must be known by name, or their number is enough."""
        return bool(self.limit.strip()) or self.host_lock != "none" or self.slice_number > 0

    @property
    def moves_hosts(self) -> bool:
        """Whether the extra variables say where every host is."""
        return bool(_PLACE & set(self.extra_vars))


def holds_inventory(targets: Targets | str, inventory_id: int) -> bool:
    """Whether a job's machines are not all known, so that it holds the whole inventory."""
    return not isinstance(targets, str) and _whole(inventory_id) in targets.lock_keys


def _whole(inventory_id: int) -> str:
    return f"inventory:{inventory_id}"


def find_targets(
    inventory_id: int,
    inventory: Inventory,
    addresses: Mapping[str, str | None],
    choice: HostChoice,
    *,
    cpu: Callable[[], float],
) -> Targets:
    """The hosts of a job in a stored inventory.

    A job whose machines are not all known holds the inventory itself, and every machine of it that
    is known.

    Args:
        addresses: as stored with the hosts.

    Raises:
        PatternError: the limit cannot be resolved.
    """
    found = resolve("all", choice.limit, inventory, cpu=cpu)
    hosts = sliced(found, choice.slice_number, choice.slice_count)
    if choice.host_lock == "none":
        return Targets(len(hosts), ())
    moved = choice.moves_hosts

    def address(host: str) -> str | None:
        if moved or host not in addresses:
            return inventory.connection_address(host, choice.extra_vars)
        return addresses[host]

    # which hosts a subscript picks is certain only when Ansible picks them
    held = inventory.hosts if "[" in choice.limit and choice.slice_number == 0 else hosts
    places = {address(host) for host in held}
    keys = set()
    if None in places:
        keys.add(_whole(inventory_id))
        places = {address(host) for host in inventory.hosts}
    keys |= {f"host:{each}" for each in places if each is not None}
    return Targets(len(hosts), tuple(sorted(keys)))
