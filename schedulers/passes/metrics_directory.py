"""Where control's children share their metrics. Imports nothing that imports them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dispatcher.settings import Settings


def make(settings: Settings) -> Path:
    """An empty directory for this process and its children; those of dead processes are removed."""
    parent = settings.data_dir / "metrics"
    for old in parent.glob("control-*"):
        if not Path(f"/proc/{old.name.partition('-')[2]}").exists():
            shutil.rmtree(old, ignore_errors=True)
    own = parent / f"control-{os.getpid()}"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    return own
