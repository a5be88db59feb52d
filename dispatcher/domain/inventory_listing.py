"""What ``ansible-inventory --list --export`` prints, as hosts, groups and who belongs to whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dispatcher.domain.host_range import MOST_HOSTS
from dispatcher.domain.inventory_builder import MOST_GROUPS
from dispatcher.domain.inventory_data import InventoryError
from dispatcher.domain.text import has_unstorable, shown

_OWN: Final = ("all", "ungrouped")


@dataclass(frozen=True)
class Listing:
    """An inventory as Ansible listed it.

    Attributes:
        hosts: name → variables.
        groups: name → variables; without ``all`` and ``ungrouped``.
        members: (group, host), direct ones.
        children: (group, child group).
        variables: of ``all``.
    """

    hosts: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, Mapping[str, Any]]
    members: frozenset[tuple[str, str]]
    children: frozenset[tuple[str, str]]
    variables: Mapping[str, Any]


def read_listing(document: object) -> Listing:
    """Check and sort out a listing.

    Raises:
        InventoryError: it has not the form of one, is too large, or cannot be stored.
    """
    if not isinstance(document, Mapping):
        raise InventoryError("the listing is not a mapping")
    meta = document.get("_meta") or {}
    hosts: dict[str, Mapping[str, Any]] = {
        _name(host): _variables(host, found)
        for host, found in _mapping(meta.get("hostvars"), "hostvars").items()
    }
    groups: dict[str, Mapping[str, Any]] = {}
    members, children = set(), set()
    for name, group in document.items():
        if name == "_meta":
            continue
        content = _mapping(group, name)
        if name not in _OWN:
            groups[_name(name)] = _variables(name, content.get("vars"))
        for host in content.get("hosts") or ():
            hosts.setdefault(_name(host), {})
            if name not in _OWN:
                members.add((name, host))
        for child in content.get("children") or ():
            if child not in _OWN:
                groups.setdefault(_name(child), {})
                if name not in _OWN:
                    children.add((name, child))
    if len(hosts) > MOST_HOSTS:
        raise InventoryError(f"more than {MOST_HOSTS} hosts")
    if len(groups) > MOST_GROUPS:
        raise InventoryError(f"more than {MOST_GROUPS} groups")
    everybody = _mapping(document.get("all"), "all")
    return Listing(
        hosts,
        groups,
        frozenset(members),
        frozenset(children),
        _variables("all", everybody.get("vars")),
    )


def _mapping(value: object, name: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InventoryError(f"{shown(name)} is not a mapping")
    return value


def _variables(owner: object, value: object) -> Mapping[str, Any]:
    found = _mapping(value, f"the variables of {owner}")
    if _holds_unstorable(found):
        raise InventoryError(f"the variables of {shown(owner)} hold a NUL or half a character")
    return found


def _holds_unstorable(value: object) -> bool:
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str) and has_unstorable(item):
            return True
        if isinstance(item, Mapping):
            left += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            left += item
    return False


def _name(name: object) -> str:
    if not isinstance(name, str) or not name or has_unstorable(name):
        raise InventoryError(f"{shown(name)} cannot be a name")
    return name
