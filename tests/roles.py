"""Role processes for tests: started with a test's settings, ended whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dispatcher.settings import Settings, environment

ROOT = Path(__file__).resolve().parent.parent


class Role:
    """A started role; ``log`` is what it has written so far."""

    def __init__(self, process: subprocess.Popen[bytes], log_file: Path) -> None:
        self.process = process
        self._log_file = log_file

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self._log_file.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, timeout: float = 20.0) -> int:
        return self.process.wait(timeout)


@contextmanager
def role(
    settings: Settings, *arguments: str, module: str = "schedulers.passes.app"
) -> Iterator[Role]:
    """``python -m MODULE ARGUMENTS`` with these settings in its environment; killed at the end."""
    log_file = settings.data_dir / f"{'-'.join(arguments)}-{os.urandom(3).hex()}.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, **environment(settings), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    started = Role(process, log_file)
    try:
        yield started
    finally:
        for pid in [*children_of(process.pid), process.pid]:
            try:
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait(10)


def children_of(pid: int) -> list[int]:
    """Every living descendant of a process."""
    found: list[int] = []
    for child in _children(pid):
        found += [child, *children_of(child)]
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    # the kernel lists a child with the thread that forked it
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(p) for p in listed.read_text().split()]
        except OSError:
            continue
    return found


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not only waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def command_line(pid: int) -> list[str]:
    """The words that a process was started with; none when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
