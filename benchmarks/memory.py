"""Memory of a process in MB, as ``/proc`` says it."""

from __future__ import annotations

import re
from pathlib import Path

from dispatcher import processes


def pss_mb(pid: int | str = "self") -> float:
    """Proportional set size: what is shared counts in shares."""
    return _mb(Path(f"/proc/{pid}/smaps_rollup"), "Pss")


def rss_mb(pid: int | str = "self") -> float:
    """Resident set size: what is shared counts in full."""
    return _mb(Path(f"/proc/{pid}/status"), "VmRSS")


def peak_mb(pid: int | str = "self") -> float:
    """The largest resident set size since its start, or since :func:`forget_peak`."""
    return _mb(Path(f"/proc/{pid}/status"), "VmHWM")


def forget_peak(pid: int | str = "self") -> None:
    """Let the peak count from here."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def run_memory(supervisor: int) -> tuple[float, float]:
    """PSS of a run's own processes, and of Ansible's.

    Supervisor and wrapper are forks of the fork server, with one command line; what the wrapper
    executes is Ansible's.
    """
    command = Path(f"/proc/{supervisor}/cmdline").read_bytes()
    ours, ansible = pss_mb(supervisor), 0.0
    for each in processes.descendants(supervisor):
        if Path(f"/proc/{each.pid}/cmdline").read_bytes() == command:
            ours += pss_mb(each.pid)
        else:
            ansible += pss_mb(each.pid)
    return ours, ansible


def _mb(file: Path, word: str) -> float:
    found = re.search(rf"^{word}:\s+(\d+) kB", file.read_text(), re.M)
    if found is None:
        raise ProcessLookupError(f"{file} has no {word}: the process has ended")
    return int(found[1]) / 1024
