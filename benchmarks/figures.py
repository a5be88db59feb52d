"""A measured figure, its bound, and the table and file that a run of the benchmarks writes."""

from __future__ import annotations

import json
import os
import platform
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BOUNDS = Path(__file__).with_name("bounds.toml")
#: A figure may miss its bound by this share before the run fails: these machines are shared.
TOLERANCE = 0.25


@dataclass(frozen=True)
class Figure:
    """One measured value.

    Attributes:
        name: key in ``bounds.toml`` and ``bench.json``.
        value: the median unless the name says otherwise.
        unit: ``ms``, ``s``, ``ratio``, ``MB``, ``count``, ``1/s``.
        comparison: what it was compared with in the same run, and how it spread.
    """

    name: str
    value: float
    unit: str
    comparison: str = ""


@dataclass(frozen=True)
class Judged:
    """A figure beside its bound."""

    figure: Figure
    bound: float | None
    higher_is_better: bool

    @property
    def met(self) -> bool:
        if self.bound is None:
            return True
        value = self.figure.value
        return value >= self.bound if self.higher_is_better else value <= self.bound

    @property
    def failed(self) -> bool:
        """Missed by more than the tolerance."""
        if self.bound is None or self.met:
            return False
        value = self.figure.value
        if self.higher_is_better:
            return value < self.bound * (1 - TOLERANCE)
        return value > self.bound * (1 + TOLERANCE)


def spread(times: Sequence[float], unit: str) -> str:
    """How often something was measured, and how far apart the figures are."""
    return f"{len(times)} times, {min(times):.3g} to {max(times):.3g} {unit}"


def judge(figures: Iterable[Figure]) -> list[Judged]:
    """Put each figure beside its bound of ``bounds.toml``."""
    bounds: dict[str, dict[str, Any]] = tomllib.loads(BOUNDS.read_text())
    judged = []
    for figure in figures:
        bound = bounds.get(figure.name, {})
        judged.append(
            Judged(figure, bound.get("min", bound.get("max")), higher_is_better="min" in bound)
        )
    return judged


def unmeasured(figures: Iterable[Figure]) -> list[str]:
    """Names in ``bounds.toml`` that no figure has."""
    measured = {figure.name for figure in figures}
    return sorted(set(tomllib.loads(BOUNDS.read_text())) - measured)


def write(judged: Iterable[Judged], path: Path) -> None:
    """Write ``bench.json``: name → value, unit, comparison, bound, and the machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {"machine": machine()}
    for one in judged:
        document[one.figure.name] = {
            "value": one.figure.value,
            "unit": one.figure.unit,
            "comparison": one.figure.comparison,
            "bound": one.bound,
            "met": one.met,
        }
    path.write_text(json.dumps(document, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load_before": round(os.getloadavg()[0], 2),
    }
