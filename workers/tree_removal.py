"""Removing what a playbook may have left in any state."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path


def remove_tree(tree: Path) -> None:
    """Remove a tree that a playbook may have left in any state, directories without rights too."""
    if not tree.exists() and not tree.is_symlink():
        return
    for directory in _unreadable(tree):
        os.chmod(directory, 0o700)
    shutil.rmtree(tree, ignore_errors=False)


def _unreadable(tree: Path) -> Iterator[str]:
    """Directories that their owner cannot list or change, each before its content is looked at."""
    pending = [str(tree)]
    while pending:
        directory = pending.pop()
        if os.stat(directory).st_mode & 0o700 != 0o700:
            yield directory
        with os.scandir(directory) as entries:
            pending += [each.path for each in entries if each.is_dir(follow_symlinks=False)]
