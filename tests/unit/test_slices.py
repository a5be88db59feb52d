"""Slices: how many there are, and which hosts each gets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.domain.slices import hosts_of_slice, slice_count


@given(st.integers(1, 50), st.integers(0, 200))
def test_there_are_no_more_slices_than_hosts_and_every_host_is_in_one(wanted, size):
    hosts = [f"h{i}" for i in range(size)]
    count = slice_count(wanted, size)
    assert count == max(1, min(wanted, size))
    slices = [hosts_of_slice(hosts, number, count) for number in range(1, count + 1)]
    assert sorted(h for each in slices for h in each) == sorted(hosts)
    for place, host in enumerate(hosts):
        assert host in slices[place % count]
    assert max(map(len, slices)) - min(map(len, slices)) <= 1


def test_unknown_hosts_are_not_sliced():
    assert slice_count(5, None) == 1
