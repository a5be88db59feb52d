"""What a parsed inventory is: groups, hosts, variables, and the address that a host has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

#: Names that Ansible takes for its own machine when the inventory does not have them.
LOCALHOST: Final = ("127.0.0.1", "localhost", "::1")
DEFAULT_PORT: Final = 22

#: Variables that say where a host is; the first one that is given wins.
ADDRESS_VARIABLES: Final = ("ansible_ssh_host", "ansible_host")
PORT_VARIABLES: Final = ("ansible_ssh_port", "ansible_port")

_TEMPLATE = re.compile(r"\{[{%#]")


class InventoryError(ValueError):
    """An inventory that cannot be read.

    Args:
        message: what is wrong.
        line: where, counted from 1; None when it is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.message = message
        self.line = line


@dataclass(frozen=True)
class Encrypted:
    """A value that only Ansible can read (``!vault``)."""

    tag: str


@dataclass(frozen=True)
class Group:
    """A group as it was written.

    Attributes:
        hosts: those that were put into it directly, in order.
        children: its child groups, in order.
        parents: the groups it is a child of.
        variables: its own.
        depth: length of the longest way down to it from ``all``.
        priority: ``ansible_group_priority``.
    """

    name: str
    hosts: tuple[str, ...]
    children: tuple[str, ...]
    parents: tuple[str, ...]
    variables: Mapping[str, Any]
    depth: int
    priority: int


@dataclass(frozen=True)
class Inventory:
    """An inventory that was parsed.

    Attributes:
        hosts: names, in the order in which they first appear.
        groups: by name, ``all`` and ``ungrouped`` among them.

    What is asked of it again and again is found once: a pattern that names one host costs the same
    whatever the number of the others.
    """

    hosts: tuple[str, ...]
    groups: Mapping[str, Group]
    _own_variables: Mapping[str, Mapping[str, Any]]
    _groups_of: Mapping[str, tuple[str, ...]]
    _members: dict[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    _chains: dict[tuple[str, ...], tuple[Group, ...]] = field(default_factory=dict, compare=False)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The place of each host among :attr:`hosts`."""
        return {host: place for place, host in enumerate(self.hosts)}

    @cached_property
    def positions_in_all(self) -> Mapping[str, int]:
        """The place of each host among the members of ``all``."""
        return {host: place for place, host in enumerate(self.members("all"))}

    @cached_property
    def localhost(self) -> str | None:
        """The first host that is a name of Ansible's own machine."""
        return min(
            (host for host in LOCALHOST if host in self.positions),
            key=self.positions.__getitem__,
            default=None,
        )

    def members(self, group: str) -> tuple[str, ...]:
        """The hosts of a group and of all groups below it: its own first, then level by level."""
        if group not in self._members:
            below = self._walk((group,), lambda g: g.children)
            found = dict.fromkeys(host for g in below for host in g.hosts)
            self._members[group] = tuple(found)
        return self._members[group]

    @property
    def hostvars(self) -> Mapping[str, dict[str, Any]]:
        """The variables of each host as Ansible would see them, those of its groups included."""
        return _HostVariables(self)

    def own_variables(self, host: str) -> Mapping[str, Any]:
        """The variables of a host itself, without those of its groups."""
        return self._own_variables.get(host, {})

    def variable(self, host: str, name: str, default: Any = None) -> Any:
        """One variable of one host, as in :attr:`hostvars`, without building them all."""
        own = self._own_variables.get(host, {})
        if name in own:
            return own[name]
        for group in reversed(self._group_chain(host)):
            if name in group.variables:
                return group.variables[name]
        return default

    def connection_address(
        self, host: str, extra_vars: Mapping[str, Any] | None = None
    ) -> str | None:
        """Where a connection to this host goes, as ``address:port``: equal for two names of one
        machine (docs/scheduling.md, "Hosts of a run"). No DNS is asked.

        Args:
            host: a name; one that is not in the inventory has its name for address.
            extra_vars: win over all variables of the inventory.

        Returns:
            None when only Ansible can know it: a template, or an encrypted value.
        """
        address = self._connection_variable(host, ADDRESS_VARIABLES, extra_vars or {})
        port = self._connection_variable(host, PORT_VARIABLES, extra_vars or {})
        plain_address = _plain_address(host if address is None else address)
        plain_port = _plain_port(DEFAULT_PORT if port is None else port)
        if plain_address is None or plain_port is None:
            return None
        return f"{plain_address}:{plain_port}"

    def _connection_variable(
        self, host: str, names: tuple[str, ...], extra_vars: Mapping[str, Any]
    ) -> Any:
        for name in names:
            if extra_vars.get(name) is not None:
                return extra_vars[name]
        for name in names:
            value = self.variable(host, name)
            if value is not None:
                return value
        return None

    def _group_chain(self, host: str) -> tuple[Group, ...]:
        """All groups of a host in the order in which their variables are laid over each other."""
        direct = self._groups_of.get(host, ("all",))
        if direct not in self._chains:
            above = {g.name: g for g in self._walk(direct, lambda g: g.parents)}
            self._chains[direct] = tuple(
                sorted(above.values(), key=lambda g: (g.depth, g.priority, g.name))
            )
        return self._chains[direct]

    def _walk(
        self, start: tuple[str, ...], follow: Callable[[Group], tuple[str, ...]]
    ) -> Iterator[Group]:
        """Groups in breadth-first order, each once."""
        seen, level = set(start), list(start)
        while level:
            following: list[str] = []
            for name in level:
                group = self.groups[name]
                yield group
                for other in follow(group):
                    if other not in seen:
                        seen.add(other)
                        following.append(other)
            level = following


class _HostVariables(Mapping[str, dict[str, Any]]):
    """Merged when they are asked for: an inventory has many hosts, a caller looks at few."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def __getitem__(self, host: str) -> dict[str, Any]:
        if host not in self._inventory._own_variables:
            raise KeyError(host)
        merged: dict[str, Any] = {}
        for group in self._inventory._group_chain(host):
            merged.update(group.variables)
        merged.update(self._inventory._own_variables[host])
        return merged

    def __iter__(self) -> Iterator[str]:
        return iter(self._inventory.hosts)

    def __len__(self) -> int:
        return len(self._inventory.hosts)


def is_template(value: object) -> bool:
    """Whether a value is only known when Ansible has rendered it."""
    return isinstance(value, Encrypted) or (
        isinstance(value, str) and _TEMPLATE.search(value) is not None
    )


def _plain_address(value: object) -> str | None:
    if is_template(value) or isinstance(value, bool | list | Mapping):
        return None
    text = str(value).strip().lower()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    try:
        address = ip_address(text)
    except ValueError:
        return text.rstrip(".") or None
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped) if address.ipv4_mapped else f"[{address}]"
    return str(address)


def _plain_port(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | str) or is_template(value):
        return None
    try:
        return int(value)
    except ValueError:
        return None
