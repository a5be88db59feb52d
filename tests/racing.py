"""Calls that start together, for tests of races."""

from __future__ import annotations

import threading
from typing import Any


def at_once(calls: list[Any]) -> list[Any]:
    """Run calls in threads that start together; what each returned or raised."""
    barrier = threading.Barrier(len(calls))
    outcomes: list[Any] = []

    def run(call: Any) -> None:
        barrier.wait()
        try:
            outcomes.append(call())
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
