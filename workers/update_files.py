"""What an update leaves in its run directory, until the agent has stored it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from workers.run_dir import RunDir
from workers.tree_removal import remove_tree

_READ = 1 << 20


class UpdateFiles:
    """The directory ``update/`` of one run."""

    def __init__(self, run_dir: RunDir) -> None:
        self._path = run_dir.update

    @property
    def listing(self) -> Path:
        """What ansible-inventory listed."""
        return self._path / "listing.json"

    def make(self) -> None:
        """Make the directory."""
        self._path.mkdir(mode=0o700, exist_ok=True)

    def write_bundle(self, chunks: Iterable[bytes]) -> None:
        """Keep a packed project."""
        self.make()
        with open(self._open("bundle"), "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())

    def read_bundle(self) -> Iterator[bytes]:
        """The packed project."""
        with open(self._path / "bundle", "rb") as file:
            while chunk := file.read(_READ):
                yield chunk

    def write_found(self, text: str) -> None:
        """Say what was found: JSON, an object."""
        self.make()
        with open(self._open("found.json"), "w", encoding="utf-8") as file:
            file.write(text)

    def read_found(self) -> dict[str, Any]:
        """What was found; empty when nothing was said."""
        try:
            found = json.loads((self._path / "found.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def read_listing(self) -> Any:
        """The listing as a document.

        Raises:
            OSError, ValueError: there is none, or it is not JSON.
        """
        return json.loads(self.listing.read_bytes())

    def remove(self) -> None:
        """Everything is stored."""
        remove_tree(self._path)

    def _open(self, name: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return os.open(self._path / name, flags, 0o600)
