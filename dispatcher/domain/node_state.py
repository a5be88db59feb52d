"""What a node's row means to callers: capacity, what is left of it, and whether it takes jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dispatcher.domain.capacity import node_capacity

#: Columns of a node, its lease's state among them.
Row = Mapping[Any, Any]


def capacity_of(row: Row) -> int:
    """What the node can hold; 0 when it is disabled, draining, lost or gone."""
    return node_capacity(
        row["cpu_capacity"],
        row["mem_capacity"],
        adjustment=row["capacity_adjustment"],
        fixed=row["fixed_capacity"],
        available=row["enabled"] and not row["draining"] and row["state"] in ("alive", "suspect"),
    )


def takes_jobs(row: Row) -> bool:
    """Whether a job may be started on it now."""
    return bool(
        row["state"] == "alive" and row["enabled"] and not row["draining"] and row["accepting"]
    )


def errors_of(row: Row) -> str:
    """Why it takes no jobs, in words; empty when it does."""
    if row["state"] != "alive":
        words = {
            "suspect": "it has missed heartbeats",
            "lost": "it counts as lost",
            "left": "it has stopped",
        }
        return words[row["state"]]
    if row["draining"]:
        return "it is being drained"
    if not row["enabled"]:
        return "it is disabled"
    return str(row["not_accepting_reason"])


def percent_remaining(capacity: int, consumed: int) -> float:
    """The free part of a capacity, in percent; 0 without capacity."""
    if capacity <= 0:
        return 0.0
    return round(max(0.0, 100.0 * (capacity - consumed) / capacity), 2)
