"""Inventories whose hosts are known without running anything: static INI and YAML texts."""

from __future__ import annotations

from collections.abc import Mapping

from dispatcher.domain.inventory_data import Encrypted, Group, Inventory, InventoryError
from dispatcher.domain.inventory_ini import parse_ini
from dispatcher.domain.inventory_yaml import build, load

__all__ = ["Encrypted", "Group", "Inventory", "InventoryError", "parse_inventory"]


def parse_inventory(text: str) -> Inventory:
    """Parse a text the way Ansible does with a file without an extension: YAML (or JSON) if it is
    a mapping, else INI.

    Raises:
        InventoryError: it is neither; with the line where that is known.
    """
    try:
        document = load(text)
    except InventoryError:
        if _is_meant_as_yaml(text):
            raise
        return parse_ini(text)
    if isinstance(document, Mapping) and document:
        return build(document)
    try:
        return parse_ini(text)
    except InventoryError:
        if isinstance(document, list) and _is_meant_as_yaml(text):
            raise InventoryError(
                "a list is not an inventory: its top level must name groups", 1
            ) from None
        raise


def _is_meant_as_yaml(text: str) -> bool:
    """Whose error is the helpful one, when a text is neither YAML nor INI."""
    for line in text.splitlines():
        word = line.strip()
        if word and not word.startswith(("#", ";")):
            return word.startswith(("---", "- ", "{", "%")) or word.endswith(":") or ": " in word
    return False
