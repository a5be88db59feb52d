"""Waiting for a condition, instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds by which a wait that ends by itself has ended on any machine; one that does not never does.
NOT_ENDLESS = 25.0


def wait_until(predicate: Callable[[], T], *, timeout: float = 60.0, what: str = "") -> T:
    """Call ``predicate`` until it answers something true, and return that.

    Args:
        predicate: looked at about 50 times a second.
        timeout: seconds after which the test fails; long, because a busy machine is no fault.
        what: words for the failure; default the predicate's name.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            name = what or getattr(predicate, "__name__", "condition")
            raise AssertionError(f"not within {timeout} s: {name} (last: {value!r})")
        time.sleep(0.02)
