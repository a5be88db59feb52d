"""How much a node can hold, in units of impact (docs/scheduling.md; the formulas are AWX's)."""

from __future__ import annotations

from typing import Final

#: Units of impact for each CPU.
FORKS_PER_CPU: Final = 4
#: Bytes that the system and the dispatcher keep for themselves.
RESERVED_MEMORY: Final = 2 << 30
#: Bytes for each unit of impact.
MEMORY_PER_FORK: Final = 100 << 20


def cpu_capacity(cpus: float) -> int:
    """Capacity by CPUs; ``cpus`` may be a fraction (a cgroup's limit)."""
    return max(1, int(FORKS_PER_CPU * cpus))


def mem_capacity(memory: int) -> int:
    """Capacity by memory, in bytes."""
    return max(1, (memory - RESERVED_MEMORY) // MEMORY_PER_FORK)


def node_capacity(
    cpu_capacity: int,
    mem_capacity: int,
    *,
    adjustment: float = 1.0,
    fixed: int | None = None,
    available: bool = True,
) -> int:
    """What a node can hold.

    Args:
        cpu_capacity: see :func:`cpu_capacity`.
        mem_capacity: see :func:`mem_capacity`.
        adjustment: 0: the smaller of the two, 1: the larger, between: in proportion.
        fixed: set by hand; wins over both.
        available: false for a node that is disabled, draining or lost: it holds nothing.
    """
    if not available:
        return 0
    if fixed is not None:
        return fixed
    low, high = sorted((cpu_capacity, mem_capacity))
    return int(low + (high - low) * adjustment)
