"""Small disks for the nodes' data directories, so that they can be filled: tmpfs, for root only."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

#: Twice what must be free for a node to take jobs, so that a node is fit until it is filled.
SIZE: Final = 128 << 20


class SmallDisks:
    """File systems of their own under some directories.

    Attributes:
        directories: those that are mounted; the others are on the machine's own disk.
    """

    def __init__(self) -> None:
        self.directories: list[Path] = []

    def mount(self, directory: Path) -> None:
        """Give a directory a small disk of its own, where this account may."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "tmpfs", str(directory)]
        try:
            done = subprocess.run(command, capture_output=True)
        except FileNotFoundError:
            return
        if done.returncode == 0:
            self.directories.append(directory)

    def unmount(self) -> None:
        """Take them all away, whatever is open in them."""
        for directory in self.directories:
            subprocess.run(["umount", "-l", str(directory)], check=True)
        self.directories.clear()

    @staticmethod
    def fill(directory: Path, left: int) -> Path:
        """Leave that many bytes; the file that takes up the rest."""
        ballast = directory / "ballast"
        found = os.statvfs(directory)
        size = max(0, found.f_bavail * found.f_frsize - left)
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, size))
        return ballast
