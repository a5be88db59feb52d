"""What this machine can hold: CPUs and memory, from the cgroup's limits where there are any.

A container sees its host's memory in ``/proc/meminfo``; a node sized by that is killed by the
kernel. Pure functions read the files' contents; :func:`measure` reads the files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: cgroup v1 writes "no limit" as the largest multiple of a page below 2**63.
_NO_LIMIT_V1 = 1 << 60


@dataclass(frozen=True)
class Measured:
    """CPUs (a share counts as a fraction) and memory in bytes."""

    cpus: float
    memory: int


def cpu_max_limit(text: str) -> float | None:
    """CPUs of a cgroup v2 ``cpu.max`` (``"150000 100000"`` is 1.5); None without a limit."""
    quota, _, period = text.strip().partition(" ")
    if not quota or quota == "max":
        return None
    return int(quota) / int(period or 100_000)


def memory_max_limit(text: str) -> int | None:
    """Bytes of a cgroup v2 ``memory.max``; None without a limit."""
    word = text.strip()
    return None if word in ("", "max") else int(word)


def cfs_limit(quota: str, period: str) -> float | None:
    """CPUs of cgroup v1's ``cpu.cfs_quota_us`` and ``cpu.cfs_period_us``; None without a limit."""
    if not quota.strip() or not period.strip() or int(quota) <= 0 or int(period) <= 0:
        return None
    return int(quota) / int(period)


def limit_in_bytes(text: str) -> int | None:
    """Bytes of cgroup v1's ``memory.limit_in_bytes``; None without a limit."""
    word = text.strip()
    return None if not word or int(word) >= _NO_LIMIT_V1 else int(word)


def memory_total(meminfo: str) -> int:
    """Bytes of ``MemTotal`` in ``/proc/meminfo``."""
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def cgroup_paths(text: str) -> dict[str, str]:
    """Controller → path of ``/proc/self/cgroup``; cgroup v2's single line has the key ``""``."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _least(values: Iterable[float | None]) -> float | None:
    return min((v for v in values if v is not None), default=None)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _ancestry(mount: Path, path: str) -> list[Path]:
    """The cgroup's directory and those above it, up to the mount: each may hold a limit.

    Inside a container without a cgroup namespace the path is the host's and does not exist
    below the mount; then only the mount itself counts.
    """
    own = mount / path.lstrip("/")
    return [own, *(p for p in own.parents if p == mount or mount in p.parents)]


def measure(root: Path = Path("/"), *, machine_cpus: float | None = None) -> Measured:
    """Measure this machine, or the container that this process is in.

    Args:
        root: where ``proc`` and ``sys`` are.
        machine_cpus: default the CPUs that this process may run on.
    """
    if machine_cpus is None:
        machine_cpus = float(len(os.sched_getaffinity(0)))
    paths = cgroup_paths(_read(root / "proc/self/cgroup"))
    mount = root / "sys/fs/cgroup"
    unified = _ancestry(mount, paths.get("", "/"))
    cpu_v1 = _ancestry(mount / "cpu", paths.get("cpu", "/"))
    memory_v1 = _ancestry(mount / "memory", paths.get("memory", "/"))
    cpus = _least(
        [cpu_max_limit(_read(d / "cpu.max")) for d in unified]
        + [cfs_limit(_read(d / "cpu.cfs_quota_us"), _read(d / "cpu.cfs_period_us")) for d in cpu_v1]
    )
    memory = _least(
        [memory_max_limit(_read(d / "memory.max")) for d in unified]
        + [limit_in_bytes(_read(d / "memory.limit_in_bytes")) for d in memory_v1]
    )
    total = memory_total(_read(root / "proc/meminfo"))
    return Measured(
        cpus=machine_cpus if cpus is None else min(cpus, machine_cpus),
        memory=total if memory is None else min(int(memory), total),
    )
