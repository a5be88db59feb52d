"""Inventories in Ansible's YAML form, JSON included."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any, Final

import yaml

from dispatcher.domain.inventory_builder import Builder
from dispatcher.domain.inventory_data import Encrypted, Inventory, InventoryError
from dispatcher.domain.text import shown

#: Deepest nesting of ``children``; a YAML alias can make it endless.
_DEEPEST: Final = 100
_SECTIONS: Final = ("vars", "children", "hosts")


class _Lined(dict[Any, Any]):
    """A mapping that knows the lines of its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[Any, int] = {}


class _Loader(yaml.CSafeLoader):
    """Safe, with line numbers, and with the tags that Ansible adds."""


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> Any:
    mapping = _Lined()
    yield mapping
    loader.flatten_mapping(node)
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.MarkedYAMLError(
                problem="a key that is not a single value", problem_mark=key_node.start_mark
            )
        mapping[key] = loader.construct_object(value_node)
        mapping.lines[key] = key_node.start_mark.line + 1


def _construct_unsafe(loader: _Loader, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return node.value


def _construct_encrypted(_: _Loader, node: yaml.Node) -> Encrypted:
    return Encrypted(node.tag)


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
_Loader.add_constructor("!unsafe", _construct_unsafe)
_Loader.add_constructor("!vault", _construct_encrypted)
_Loader.add_constructor("!vault-encrypted", _construct_encrypted)


def load(text: str) -> object:
    """The document as Ansible would load it: JSON if it is that, else YAML.

    Raises:
        InventoryError: neither, with the line.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise InventoryError(f"not YAML: {error.problem or error.context}", line) from None
    except yaml.YAMLError as error:
        raise InventoryError(f"not YAML: {str(error).splitlines()[0]}") from None
    except (RecursionError, ValueError, OverflowError, TypeError) as error:
        raise InventoryError(f"not YAML that can be read here: {error}") from None
    finally:
        loader.dispose()


def build(document: Mapping[Any, Any]) -> Inventory:
    """The inventory of a document whose top level maps group names to groups.

    Raises:
        InventoryError: with the line.
    """
    builder = Builder()
    if document.get("plugin"):
        raise builder.error("the configuration of an inventory plugin, not an inventory")
    for name, group in document.items():
        builder.line = _line(document, name, builder.line)
        _add_group(builder, name, group, depth=1)
    return builder.build()


def _add_group(builder: Builder, name: object, group: object, *, depth: int) -> str:
    if depth > _DEEPEST:
        raise builder.error(f"groups are nested more than {_DEEPEST} levels deep")
    if group is not None and not isinstance(group, Mapping):
        # Ansible passes over it with a warning
        return str(name)
    added = builder.add_group(name)
    for key, content in (group or {}).items():
        builder.line = _line(group, key, builder.line)
        part = _section(builder, name, key, content)
        if key not in _SECTIONS or part is None:
            continue
        if key == "vars":
            for variable, value in part.items():
                builder.line = _line(part, variable, builder.line)
                builder.set_variable(added, variable, value)
        elif key == "children":
            for child, below in part.items():
                builder.line = _line(part, child, builder.line)
                builder.add_child(added, _add_group(builder, child, below, depth=depth + 1))
        else:
            for host, variables in part.items():
                builder.line = _line(part, host, builder.line)
                if variables and not isinstance(variables, Mapping):
                    raise builder.error(f"the variables of host {shown(host)} must be a mapping")
                builder.add_hosts(host, added, variables or {})
    return added


def _section(builder: Builder, group: object, key: object, part: object) -> Any:
    """The content of ``vars``, ``children`` or ``hosts``: a mapping, or a single name."""
    if key not in _SECTIONS or part is None or isinstance(part, Mapping):
        return part
    if isinstance(part, str):
        return {part: None}
    raise builder.error(f"{shown(key)} of group {shown(group)} must be a mapping")


def _line(mapping: object, key: object, otherwise: int) -> int:
    return mapping.lines.get(key, otherwise) if isinstance(mapping, _Lined) else otherwise
