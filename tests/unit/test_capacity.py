"""Capacity formulas."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.domain.capacity import cpu_capacity, mem_capacity, node_capacity

GIB = 1 << 30


def test_cpu_capacity_is_four_for_each_cpu_and_at_least_one() -> None:
    assert [cpu_capacity(n) for n in (0, 0.1, 0.5, 1, 2.5, 16)] == [1, 1, 2, 4, 10, 64]


def test_mem_capacity_is_one_for_each_100_mib_beyond_2_gib_and_at_least_one() -> None:
    assert [mem_capacity(n) for n in (0, GIB, 2 * GIB, 3 * GIB, 8 * GIB)] == [1, 1, 1, 10, 61]


def test_the_adjustment_moves_from_the_smaller_to_the_larger() -> None:
    assert [node_capacity(16, 61, adjustment=a) for a in (0, 0.5, 1)] == [16, 38, 61]
    assert node_capacity(61, 16, adjustment=1) == 61


def test_a_fixed_capacity_wins_and_an_unavailable_node_holds_nothing() -> None:
    assert node_capacity(16, 61, fixed=7) == 7
    assert node_capacity(16, 61, fixed=0) == 0
    assert node_capacity(16, 61, fixed=7, available=False) == 0


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.floats(0, 1))
def test_capacity_lies_between_the_two(cpu: int, mem: int, adjustment: float) -> None:
    assert min(cpu, mem) <= node_capacity(cpu, mem, adjustment=adjustment) <= max(cpu, mem)
