"""Why a node should not claim jobs now: its disk, its directory, its tools, its spools. It looks again by itself."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from workers.playbook_command import playbook_path
from workers.runs import Run
from workers.spool import SpoolReader

#: Bytes and files that must be free for runs to be prepared and spooled.
LEAST_BYTES: Final = 64 << 20
LEAST_FILES: Final = 1_000
#: Jobs that a reason names.
_NAMED: Final = 3


def why_unfit(data_dir: Path, *, least_bytes: int = LEAST_BYTES, path: str | None = None) -> str:
    """Words for why no job should be started here; empty when nothing is wrong.

    Args:
        least_bytes: what must be free on the disk.
        path: where ansible-playbook is looked for; default where playbooks find it.
    """
    return (
        _directory_trouble(data_dir)
        or _room_trouble(data_dir, least_bytes)
        or _probe_trouble(data_dir / "runs")
        or _tool_trouble(playbook_path() if path is None else path)
    )


def why_behind(runs: Iterable[Run], quota: int) -> str:
    """Words for why the events of the runs that there are come first; empty when they do not.

    Args:
        runs: those that run.
        quota: bytes that a run may have spooled and not stored.
    """
    full = [
        run.job_id
        for run in runs
        if SpoolReader(run.directory.spool).size - run.directory.shipped() >= quota
    ]
    if not full:
        return ""
    jobs = ", ".join(map(str, full[:_NAMED])) + (" …" if len(full) > _NAMED else "")
    return f"the spool quota is full: the events of job {jobs} wait to be stored"


def _directory_trouble(data_dir: Path) -> str:
    try:
        found = os.stat(data_dir)
    except OSError as error:
        return f"the data directory {data_dir} cannot be used: {error.strerror}"
    if found.st_uid != os.geteuid():
        return f"the data directory {data_dir} belongs to another account"
    if stat.S_IMODE(found.st_mode) & 0o022:
        # ansible ignores the configuration of a directory that others may write to
        return f"the data directory {data_dir} can be written by others: chmod 700 it"
    return ""


def _room_trouble(data_dir: Path, least_bytes: int) -> str:
    found = os.statvfs(data_dir)
    free = found.f_bavail * found.f_frsize
    if free < least_bytes:
        return f"the disk of {data_dir} is full: {free >> 20} MiB are free"
    if found.f_files and found.f_favail < LEAST_FILES:
        return f"the disk of {data_dir} is full: {found.f_favail} more files fit"
    return ""


def _probe_trouble(runs: Path) -> str:
    probe = runs / ".probe"
    try:
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as error:
        return f"{runs} cannot be written: {error.strerror}"
    return ""


def _tool_trouble(path: str) -> str:
    if shutil.which("ansible-playbook", path=path) is None:
        return f"ansible-playbook is not installed: it is not on {path}"
    return ""
