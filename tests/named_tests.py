"""Tests that tables name by ``file::name``, which must be there."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def _names_in(file: str) -> frozenset[str]:
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def missing_tests(named: Iterable[str]) -> list[str]:
    """Those that are not there any more."""
    return [
        each for each in named if each.partition("::")[2] not in _names_in(each.partition("::")[0])
    ]
