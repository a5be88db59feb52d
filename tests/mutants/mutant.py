"""What a mutant is: one rule, broken by a textual change of one file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A textual change of one file; ``old`` occurs in it exactly once.

    Attributes:
        tests: the tests that must find it, as pytest names them; empty: those of its planner.
    """

    rule: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()


def of_planner(file: str, *changes: tuple[str, str, str]) -> list[Mutant]:
    """Mutants of one module of the planners."""
    path = f"schedulers/core/{file}.py"
    return [Mutant(rule, path, old, new) for rule, old, new in changes]
