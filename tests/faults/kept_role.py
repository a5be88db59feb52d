"""The roles of a cluster, each started again when it ends."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dispatcher.settings import Settings, environment
from tests.roles import ROOT

#: Module and arguments of each role but the workers.
_ROLES: Final = {
    "api": ("dispatcher.api.serve",),
    "beat": ("schedulers.passes.app", "beat"),
    "control1": ("schedulers.passes.app", "control"),
    "control2": ("schedulers.passes.app", "control"),
}


def role_names(nodes: Sequence[str]) -> list[str]:
    """Every role of a cluster with these nodes."""
    return [*_ROLES, *(f"worker-{node}" for node in nodes)]


@dataclass
class KeptRole:
    """A role that somebody (here: the cluster) starts again when it ends, as systemd would.

    Args:
        python: its interpreter.
    """

    name: str
    settings: Settings
    log: Path
    python: str
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    due: float = 0.0

    def start(self) -> None:
        """Start it, now."""
        module, *arguments = _ROLES.get(self.name, ("workers.app", "worker"))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.python, "-P", "-m", module, *arguments],
                cwd=ROOT,
                env={**os.environ, **environment(self.settings), "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.starts += 1
