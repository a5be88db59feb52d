"""Slices: one launch split over parts of its hosts."""

from __future__ import annotations

from collections.abc import Sequence


def slice_count(wanted: int, hosts: int | None) -> int:
    """How many slices a launch has; 1: it is not sliced.

    Args:
        wanted: as the template or the launch says.
        hosts: after the limit; None: only Ansible can say, and nothing can be split.
    """
    if hosts is None:
        return 1
    return max(1, min(wanted, hosts))


def hosts_of_slice(hosts: Sequence[str], number: int, count: int) -> tuple[str, ...]:
    """The hosts of slice ``number`` (from 1) of ``count``: host ``i`` goes to slice ``i mod n``."""
    return tuple(hosts[number - 1 :: count])
