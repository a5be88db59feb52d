"""The one place where time is read.

Each clock for its purpose: the wall clock for what people read, CLOCK_MONOTONIC for durations
inside a process, CPU time for budgets of computation, CLOCK_BOOTTIME for fencing, because it goes
on while a machine is suspended (docs/protocols.md 4). Whatever is compared between machines uses the database's clock,
the SQL function ``dispatcher_now()``.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path


def now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds of CLOCK_MONOTONIC, for durations inside one process."""
    return time.monotonic()


def thread_cpu() -> float:
    """CPU seconds of this thread, for budgets of computation: other load does not use them up."""
    return time.thread_time()


def boottime() -> float:
    """Seconds since boot, suspension included (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def boot_id() -> str:
    """The kernel's random id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def sleep(seconds: float) -> None:
    """Wait. Loops that can be woken use an event instead."""
    time.sleep(seconds)
