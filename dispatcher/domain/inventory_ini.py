"""Inventories in Ansible's INI form."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from typing import Any, Final

from dispatcher.domain.inventory_builder import Builder
from dispatcher.domain.inventory_data import Inventory, InventoryError
from dispatcher.domain.text import shown

_SECTION = re.compile(r"\[(?P<group>[^\s:\]]+)(?::(?P<kind>\w+))?\]\s*(?:#.*)?")
_GROUP_LINE = re.compile(r"(?P<group>[^\s:\]]+)\s*(?:#.*)?")
_NEEDS_SHELL_RULES = re.compile(r"""['"\\#]""")
_BLANKS = re.compile(r"[ \t\r\n]+")
_PLAIN_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_NUMERIC_ADDRESS = re.compile(r"[0-9]+(?:\.[0-9]+){2,}")
#: What a Python literal can begin with; all else is a text, and most values are.
_MAY_BE_LITERAL = re.compile(r"""[-+.0-9'"\[({# \t]|[bBuUrRfFtT]{1,2}['"]|True|False|None|set\(""")
#: A literal longer than this stays a text: nothing that is looked at here is that long.
_LONGEST_LITERAL: Final = 10_000


def parse_ini(text: str) -> Inventory:
    """Parse an inventory.

    Raises:
        InventoryError: with the line.
    """
    return _Parser().parse(text)


class _Parser:
    def __init__(self) -> None:
        self.builder = Builder()
        self.group = "ungrouped"
        self.kind = "hosts"
        # groups that were named before they were declared: name → lines and parents
        self.awaited_children: dict[str, list[tuple[int, str]]] = {}
        # groups that so far were declared by their variables only: name → line
        self.only_vars: dict[str, int] = {}

    def parse(self, text: str) -> Inventory:
        for number, line in enumerate(text.splitlines(), 1):
            self.builder.line = number
            self._line(line.strip())
        undefined = [
            (
                named[0][0],
                f"[{named[0][1]}:children] names group {shown(name)}, which is not defined",
            )
            for name, named in self.awaited_children.items()
        ] + [
            (line, f"[{name}:vars] is for a group that is not defined")
            for name, line in self.only_vars.items()
        ]
        if undefined:
            first, message = min(undefined)
            raise InventoryError(message, first)
        return self.builder.build()

    def _line(self, line: str) -> None:
        if not line or line[0] in "#;":
            return
        section = _SECTION.fullmatch(line)
        if section:
            self._begin_section(section["group"], section["kind"] or "hosts")
        elif line.startswith("[") and line.endswith("]"):
            raise self.builder.error(f"{line}: not a section (spaces are not allowed in it)")
        elif self.kind == "hosts":
            self._host_line(line)
        elif self.kind == "vars":
            name, equals, value = line.partition("=")
            if not equals:
                raise self.builder.error(f"expected name=value, got {shown(line)}")
            self.builder.set_variable(self.group, name.strip(), self._value(value.strip()))
        else:
            self._child_line(line)

    def _begin_section(self, group: str, kind: str) -> None:
        if kind not in ("hosts", "children", "vars"):
            raise self.builder.error(f"[{group}:{kind}]: a section is of hosts, children or vars")
        self.group, self.kind = group, kind
        if not self.builder.has_group(group):
            if kind == "vars" and group not in self.awaited_children:
                self.only_vars[group] = self.builder.line
            self.builder.add_group(group)
        if kind != "vars":
            self.only_vars.pop(group, None)
            for line, parent in self.awaited_children.pop(group, ()):
                self.builder.add_child(parent, group, line=line)

    def _child_line(self, line: str) -> None:
        found = _GROUP_LINE.fullmatch(line)
        if not found:
            raise self.builder.error(f"expected the name of a group, got {shown(line)}")
        child = found["group"]
        if self.builder.has_group(child) and child not in self.awaited_children:
            self.builder.add_child(self.group, child)
        else:
            self.awaited_children.setdefault(child, []).append((self.builder.line, self.group))

    def _host_line(self, line: str) -> None:
        words = self._words(line)
        if words[0].strip() == "---":
            raise self.builder.error("'---' begins a YAML file, but this is not one")
        variables: dict[str, Any] = {}
        for word in words[1:]:
            name, equals, value = word.partition("=")
            if not equals:
                raise self.builder.error(f"expected name=value after the host, got {shown(word)}")
            variables[name] = self._value(value)
        self.builder.add_hosts(words[0], self.group, variables)

    def _value(self, text: str) -> Any:
        try:
            return literal(text)
        except InventoryError as error:
            raise self.builder.error(error.message) from None

    def _words(self, line: str) -> list[str]:
        if not _NEEDS_SHELL_RULES.search(line):
            return _BLANKS.split(line)  # the same, in a tenth of the time
        try:
            return shlex.split(line, comments=True) or [""]
        except ValueError as error:
            raise self.builder.error(f"{shown(line)}: {error}") from None


def literal(value: str) -> Any:
    """A value as Ansible reads it from INI: a Python literal if it is one, else the text.

    Raises:
        InventoryError: a literal that cannot exist; without a line.
    """
    if _PLAIN_NUMBER.fullmatch(value):
        return int(value)
    if (
        not _MAY_BE_LITERAL.match(value)
        or _NUMERIC_ADDRESS.fullmatch(value)
        or len(value) > _LONGEST_LITERAL
    ):
        return value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return _as_json(ast.literal_eval(value))
    except TypeError as error:  # {{ 22 }} is a set in a set: Ansible fails on it too
        raise InventoryError(f"{shown(value)} cannot be read: {error}") from None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


def _as_json(value: Any) -> Any:
    if isinstance(value, list | tuple | set):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {_as_json(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, complex):
        return str(value)
    return "..." if value is ... else value
