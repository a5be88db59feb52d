"""Where an inventory is broken: file and line, from what ansible-inventory printed and our parser.

Ansible says most of it in warnings, one for each plugin that it tried, and its error names only the
file; the INI plugin knows no lines at all. Our own parser does.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from dispatcher.domain.inventory import InventoryError, parse_inventory

_COLORS: Final = re.compile(r"\x1b\[[0-9;]*m")
_SOURCE: Final = re.compile(r"^\[ERROR\]: Completely failed to parse inventory source (.+)$", re.M)
_CAUSE: Final = re.compile(
    r"^(?:\[WARNING\]: )?Failed to parse inventory with '(\w+)' plugin: (.+)$", re.M
)
_ORIGIN: Final = re.compile(r"^Origin: ([^<\n]+?):(\d+)(?::\d+)?$", re.M)
_LARGEST: Final = 5_000_000
_LONGEST: Final = 500


def explain(output: str, project: Path) -> str:
    """One sentence on what is wrong, with the file, and the line where it is known.

    Args:
        output: all that was printed.
        project: the tree that files are named relative to.
    """
    text = _COLORS.sub("", output).replace("\r", "")
    source = _SOURCE.search(text)
    causes = _CAUSE.findall(text)
    if source is None:
        errors = re.findall(r"^\[?ERROR(?:\]:|!) (.+)$", text, re.M)
        words = errors[-1] if errors else "ansible-inventory failed"
        return _short(words, project)
    path = Path(source[1].strip())
    name = os.path.relpath(path, project)
    if os.access(path, os.X_OK) or not path.is_file():
        found = [words for plugin, words in causes if plugin in ("script", "auto")]
        words = (found or [w for _, w in causes] or ["cannot be parsed"])[0]
        return _short(f"{name}: {words}", project)
    own = _own_error(path)
    origin = _ORIGIN.search(text)
    if own is not None and own.line is not None:
        return _short(f"{name}, line {own.line}: {own.message}", project)
    words = causes[0][1] if causes else "cannot be parsed"
    line = f", line {origin[2]}" if origin is not None and Path(origin[1]) == path else ""
    return _short(f"{name}{line}: {words}", project)


def _own_error(path: Path) -> InventoryError | None:
    try:
        if path.stat().st_size <= _LARGEST:
            parse_inventory(path.read_text("utf-8"))
    except InventoryError as error:
        return error
    except (OSError, UnicodeDecodeError):
        pass
    return None


def _short(words: str, project: Path) -> str:
    return words.replace(f"{project}/", "")[:_LONGEST]
