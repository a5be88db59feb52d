"""The command line as a process, as a person or a pipeline starts it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND = (sys.executable, "-m", "dispatcher.cli.main")


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Nothing of the dispatcher's but these variables; the tree under test first in the path."""
    known = {k: v for k, v in os.environ.items() if not k.startswith("DISPATCHER_")}
    return known | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"} | dict(variables)


def dispatcher(
    *arguments: str, cwd: Path, timeout: float = 60, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start(*arguments: str, cwd: Path, **variables: str) -> subprocess.Popen[str]:
    """Start a command, for a test that does something meanwhile."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for a started command: exit code, and what is left of stdout and stderr."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def start_on_terminal(
    *arguments: str, cwd: Path, **variables: str
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a command whose stdout is a terminal; (process, descriptor to read it from)."""
    near, far = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(variables),
        stdin=subprocess.DEVNULL,
        stdout=far,
        stderr=subprocess.DEVNULL,
    )
    os.close(far)
    return process, near
