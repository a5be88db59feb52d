"""Tests and benchmarks by name: tables that say what shows something are held to them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


def missing(shown: Iterable[str]) -> list[str]:
    """Those of ``file::name`` that are not there."""
    return [
        each for each in shown if each.partition("::")[2] not in _names_in(each.partition("::")[0])
    ]


@cache
def _names_in(file: str) -> frozenset[str]:
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
