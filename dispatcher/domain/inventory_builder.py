"""Putting an inventory together, whatever it was written in: the rules that INI and YAML share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from dispatcher.domain.host_range import MOST_HOSTS, expand, split_port
from dispatcher.domain.inventory_data import Group, Inventory, InventoryError
from dispatcher.domain.text import shown

#: Most groups, and most memberships of hosts and groups in groups, of one inventory.
MOST_GROUPS: Final = 20_000
MOST_MEMBERSHIPS: Final = 500_000


@dataclass
class _Group:
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)  # name → line
    variables: dict[str, Any] = field(default_factory=dict)
    priority: int = 1


class Builder:
    """Collects groups, hosts and variables; :meth:`build` applies the closing rules.

    ``line`` is set by the parser before each call and named in errors.
    """

    def __init__(self) -> None:
        self.line = 1
        self._groups: dict[str, _Group] = {"all": _Group(), "ungrouped": _Group()}
        self._hosts: dict[str, dict[str, Any]] = {}
        self._memberships = 0
        self.add_child("all", "ungrouped")

    def error(self, message: str) -> InventoryError:
        """An error at the present line."""
        return InventoryError(message, self.line)

    def has_group(self, name: str) -> bool:
        """Whether the group is known already."""
        return name in self._groups

    def add_group(self, name: object) -> str:
        """Make a group known."""
        if not isinstance(name, str) or name == "":
            raise self.error(f"the name of a group must be a text, not {shown(name)}")
        if name not in self._groups:
            if len(self._groups) >= MOST_GROUPS:
                raise self.error(f"more than {MOST_GROUPS} groups")
            self._groups[name] = _Group()
        return name

    def add_child(self, parent: str, child: str, *, line: int | None = None) -> None:
        """Put a group (or, under a name that is no group's, a host) into a group.

        Args:
            line: where it is said, if not at the present line.
        """
        self._count_membership()
        if child in self._groups:
            if child in ("all", parent):
                raise self.error(
                    f"group {shown(child)} cannot be a child of {shown(parent)}: a loop"
                )
            self._groups[parent].children.setdefault(child, line or self.line)
        elif child in self._hosts:
            self._groups[parent].hosts[child] = None
        else:
            raise self.error(f"{shown(child)} is not a group")

    def add_hosts(self, pattern: object, group: str, variables: Mapping[Any, Any]) -> None:
        """Put a host, or a range of hosts, into a group, with variables of their own."""
        if not isinstance(pattern, str):
            raise self.error(
                f"the name of a host must be a text, not {shown(pattern)}: put it in quotes"
            )
        host_range, port = split_port(pattern)
        if pattern.strip().endswith(":") and port is None:
            raise self.error(f"host {shown(pattern)} must not end with ':'")
        try:
            for host in expand(host_range):
                self._add_host(host, group, port)
                for name, value in variables.items():
                    self.set_variable(host, name, value)
        except InventoryError as error:
            raise self.error(error.message) from None

    def put_host(self, name: str, variables: Mapping[str, Any], group: str = "all") -> None:
        """Put one host into a group, its name as it is: neither a range nor with a port."""
        self._add_host(name, group, None)
        self._hosts[name].update(variables)

    def _add_host(self, host: str, group: str, port: int | None) -> None:
        if host == "":
            raise self.error("a host needs a name")
        if host not in self._hosts:
            if len(self._hosts) >= MOST_HOSTS:
                raise self.error(f"more than {MOST_HOSTS} hosts")
            # a port beside the name counts where the host is first met, as in Ansible
            self._hosts[host] = {"ansible_port": port} if port else {}
        self._count_membership()
        self._groups[group].hosts[host] = None

    def _count_membership(self) -> None:
        self._memberships += 1
        if self._memberships > MOST_MEMBERSHIPS:
            raise self.error(f"more than {MOST_MEMBERSHIPS} members of groups")

    def set_variable(self, owner: str, name: object, value: Any) -> None:
        """Set a variable of a group or a host; of a name that is both, the group gets it."""
        if not isinstance(name, str):
            raise self.error(f"the name of a variable must be a text, not {shown(name)}")
        group = self._groups.get(owner)
        if group is None:
            self._hosts[owner][name] = value
        elif name == "ansible_group_priority":
            try:
                group.priority = int(value)
            except (TypeError, ValueError):
                raise self.error("ansible_group_priority must be a whole number") from None
        else:
            group.variables[name] = value

    def build(self) -> Inventory:
        """The inventory, every group below ``all`` and every host in some group."""
        self._adopt_groups()
        self._settle_ungrouped()
        parents = self._parents()
        depths = self._depths(parents)
        groups = {
            name: Group(
                name=name,
                hosts=tuple(group.hosts),
                children=tuple(group.children),
                parents=tuple(parents[name]),
                variables=group.variables,
                depth=depths[name],
                priority=group.priority,
            )
            for name, group in self._groups.items()
        }
        return Inventory(tuple(self._hosts), groups, self._hosts, self._groups_of())

    def _adopt_groups(self) -> None:
        has_parent = {child for group in self._groups.values() for child in group.children}
        for name in self._groups:
            if name != "all" and name not in has_parent:
                self._groups["all"].children.setdefault(name, self.line)

    def _settle_ungrouped(self) -> None:
        """``ungrouped`` holds exactly the hosts that are in no group but ``all``."""
        grouped: set[str] = set()
        for name, group in self._groups.items():
            if name not in ("all", "ungrouped"):
                grouped.update(group.hosts)
        ungrouped = self._groups["ungrouped"].hosts
        for host in self._hosts:
            if host in grouped:
                ungrouped.pop(host, None)
            else:
                ungrouped.setdefault(host)

    def _parents(self) -> dict[str, list[str]]:
        parents: dict[str, list[str]] = {name: [] for name in self._groups}
        for name, group in self._groups.items():
            for child in group.children:
                parents[child].append(name)
        return parents

    def _depths(self, parents: Mapping[str, Iterable[str]]) -> dict[str, int]:
        depths: dict[str, int] = {}
        try:
            for name in TopologicalSorter(parents).static_order():
                depths[name] = 1 + max((depths[parent] for parent in parents[name]), default=-1)
        except CycleError as error:
            loop: list[str] = error.args[1]
            line = self._groups[loop[0]].children.get(loop[1], self.line)
            names = " → ".join(loop)
            raise InventoryError(f"groups are children of each other: {names}", line) from None
        return depths

    def _groups_of(self) -> dict[str, tuple[str, ...]]:
        direct: dict[str, list[str]] = {host: [] for host in self._hosts}
        for name, group in self._groups.items():
            for host in group.hosts:
                direct[host].append(name)
        return {host: tuple(names) for host, names in direct.items()}
