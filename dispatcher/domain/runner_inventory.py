"""The inventory of a runner-service root directory: ``all: children: <group>: hosts, vars``, flat.

Pure: a text is read into a document, changed, and written again. What else is in it is kept;
comments are not. A text in another form (INI, ``!vault``) is read for what it is, and never written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from dispatcher.domain.inventory import Inventory, InventoryError, parse_inventory

#: What an inventory begins with.
SEED: Final = "all:\n  children: null\n"
RESERVED: Final = ("all", "ungrouped")
_LONGEST: Final = 5_000_000


class CannotChange(ValueError):
    """The text is not in the form that can be changed here."""


class NoSuchGroup(KeyError):
    """No group of this name."""


class NoSuchHost(KeyError):
    """No host of this name in the group."""


class RunnerInventory:
    """An inventory that may be changed.

    Raises:
        InventoryError: not an inventory at all.
    """

    def __init__(self, text: str) -> None:
        self._document = _flat_document(text)
        self._parsed: Inventory | None = None
        if self._document is None:
            self._parsed = parse_inventory(text)

    def groups(self) -> list[str]:
        """Names of the groups, in their order."""
        if self._parsed is not None:
            return [name for name in self._parsed.groups if name not in RESERVED]
        return list(self._children())

    def hosts(self) -> list[str]:
        """Names of all hosts, sorted."""
        if self._parsed is not None:
            return sorted(set(self._parsed.hosts))
        found = {str(h) for h in _mapping(self._all().get("hosts"))}
        for group in self._children():
            found.update(self.members(group))
        return sorted(found)

    def members(self, group: str) -> list[str]:
        """Hosts that are in a group itself.

        Raises:
            NoSuchGroup: there is none.
        """
        if self._parsed is not None:
            if group not in self.groups():
                raise NoSuchGroup(group)
            return list(self._parsed.groups[group].hosts)
        return [str(host) for host in _mapping(self._group(group).get("hosts"))]

    def groups_of(self, host: str) -> list[str]:
        """The groups that a host is in."""
        return [group for group in self.groups() if host in self.members(group)]

    def host_variables(self, group: str, host: str) -> dict[str, Any]:
        """Variables of a host's entry in a group.

        Raises:
            NoSuchGroup, NoSuchHost: there is none.
        """
        if host not in self.members(group):
            raise NoSuchHost(host)
        if self._parsed is not None:
            return dict(self._parsed.own_variables(host))
        return dict(_mapping(self._hosts_of(group)[host]))

    def group_variables(self, group: str) -> dict[str, Any]:
        """Variables of a group.

        Raises:
            NoSuchGroup: there is none.
        """
        if self._parsed is not None:
            self.members(group)
            return dict(self._parsed.groups[group].variables)
        return dict(_mapping(self._group(group).get("vars")))

    # -- changes

    def add_group(self, group: str) -> None:
        """Add an empty group."""
        everything = self._writable()
        children = dict(_mapping(everything.get("children")))
        children[group] = {"hosts": None}
        everything["children"] = children

    def remove_group(self, group: str) -> None:
        """Remove a group and the hosts in it."""
        everything = self._writable()
        self._group(group)
        children = dict(_mapping(everything["children"]))
        del children[group]
        everything["children"] = children or None

    def set_host(self, group: str, host: str, variables: Mapping[str, Any] | None) -> None:
        """Put a host into a group, or replace its entry there."""
        self._writable()
        hosts = dict(self._hosts_of(group))
        hosts[host] = dict(variables) if variables else None
        self._set(group, "hosts", hosts)

    def remove_host(self, group: str, host: str) -> None:
        """Take a host out of a group.

        Raises:
            NoSuchGroup, NoSuchHost: there is none.
        """
        self._writable()
        hosts = dict(self._hosts_of(group))
        if host not in hosts:
            raise NoSuchHost(host)
        del hosts[host]
        self._set(group, "hosts", hosts or None)

    def set_group_variables(self, group: str, variables: Mapping[str, Any]) -> None:
        """Replace a group's variables."""
        self._writable()
        self._group(group)
        self._set(group, "vars", dict(variables))

    def text(self) -> str:
        """The inventory as it is written."""
        return _dumped(self._writable_document())

    # -- the document

    def _writable_document(self) -> dict[str, Any]:
        if self._document is None:
            raise CannotChange(
                "the inventory file is not in the YAML form of the runner service:"
                " it can be read, not changed"
            )
        return self._document

    def _writable(self) -> dict[str, Any]:
        self._writable_document()
        return self._all()

    def _all(self) -> dict[str, Any]:
        document = self._document
        assert document is not None
        everything: dict[str, Any] = document["all"]
        return everything

    def _children(self) -> Mapping[str, Any]:
        return _mapping(self._all().get("children"))

    def _group(self, group: str) -> Mapping[str, Any]:
        children = self._children()
        if group not in children:
            raise NoSuchGroup(group)
        return _mapping(children[group])

    def _hosts_of(self, group: str) -> Mapping[str, Any]:
        return _mapping(self._group(group).get("hosts"))

    def _set(self, group: str, section: str, value: Any) -> None:
        everything = self._all()
        children = dict(self._children())
        children[group] = {**self._group(group), section: value}
        everything["children"] = children


def with_connection(text: str, variables: Mapping[str, str]) -> str:
    """The inventory of a run: these variables for all hosts, unless the inventory sets them itself.

    Raises:
        InventoryError: not an inventory.
    """
    document = _plain_document(text)
    if document is not None:
        everything = dict(_mapping(document.get("all")))
        everything["vars"] = {**variables, **_mapping(everything.get("vars"))}
        return _dumped({**document, "all": everything})
    given = parse_inventory(text).groups["all"].variables
    missing = {name: value for name, value in variables.items() if name not in given}
    if not missing:
        return text
    if _is_yaml(text):
        # a mapping whose tags only Ansible knows: it goes on as it is
        return text
    return f"{text.rstrip()}\n\n[all:vars]\n" + "".join(f"{k}={v!r}\n" for k, v in missing.items())


def _dumped(document: Any) -> str:
    text: str = yaml.dump(
        document,
        Dumper=yaml.CSafeDumper,
        default_flow_style=False,
        sort_keys=False,
        allow_unicode=True,
    )
    return text


def _is_yaml(text: str) -> bool:
    try:
        events: Iterator[Any] = yaml.parse(text, Loader=yaml.CSafeLoader)
        return any(isinstance(event, yaml.MappingStartEvent) for event in events)
    except yaml.YAMLError:
        return False


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _flat_document(text: str) -> dict[str, Any] | None:
    """The document, if it has the form that can be changed; an empty file is an empty inventory."""
    if not text.strip():
        return {"all": {"children": None}}
    document = _plain_document(text)
    if document is None or set(document) != {"all"}:
        return None
    everything = document["all"]
    if everything is None:
        document["all"] = {"children": None}
        return document
    if not isinstance(everything, dict) or not _sections_fit(everything):
        return None
    _name_by_text(everything)
    groups = everything.get("children") or {}
    for group in groups.values():
        if group is not None and not (isinstance(group, dict) and _sections_fit(group)):
            return None
        _name_by_text(group or {})
    return document


def _name_by_text(section: dict[str, Any]) -> None:
    """A group or host whose name is a number is found by its text."""
    for name in ("children", "hosts"):
        if section.get(name):
            section[name] = {str(key): value for key, value in section[name].items()}


def _plain_document(text: str) -> dict[str, Any] | None:
    """The document, if it is a mapping in YAML without tags of Ansible's.

    Raises:
        InventoryError: too long.
    """
    if len(text) > _LONGEST:
        raise InventoryError(f"more than {_LONGEST:,} characters")
    try:
        document = yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def _sections_fit(section: Mapping[str, Any]) -> bool:
    return all(
        section.get(name) is None or isinstance(section[name], dict)
        for name in ("children", "hosts", "vars")
    )
