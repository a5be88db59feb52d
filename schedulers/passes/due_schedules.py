"""Schedules: the frame of their manager. There are none yet, so a pass finds nothing due."""

from __future__ import annotations

from dispatcher.db.change import read_counter
from schedulers.passes.manager_pass import Ended, Pass


def run(under_way: Pass) -> Ended:
    """One pass over the schedules that are due."""
    with under_way.snapshot() as connection:
        counter = read_counter(connection)
        if counter == under_way.lease.done_at_change:
            return Ended("fruitless")
        return Ended("complete", done_at_change=counter)
