"""The programs that were installed beside the interpreter: the environment need not be on ``PATH``."""

from __future__ import annotations

import sys
from pathlib import Path


def installed(name: str) -> str:
    """The path of a program of the environment that runs the tests."""
    return str(Path(sys.executable).with_name(name))
