"""Unpacked bundles by digest: bounded, least recently used out first, never one that is in use.

``cache/<digest>/`` holds ``tree/`` and ``size``. Whoever reads a tree holds a shared flock on its
directory; eviction needs the exclusive one without waiting, renames away, then deletes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from uuid import uuid4

from dispatcher import clock, logs
from workers.durable import sync_directory, sync_tree
from workers.project_copy import UnsafeBundle, copy_tree, unpack

#: Opens a bundle's bytes: (digest) → context of an iterator over them.
Fetch = Callable[[str], AbstractContextManager[Iterable[bytes]]]


class ContentCache:
    """The cache of one node.

    Args:
        directory: where the trees are.
        fetch: opens a bundle's bytes in the database.
        bound: bytes of unpacked content that are kept.
        largest: most bytes of one bundle, unpacked.
    """

    def __init__(self, directory: Path, fetch: Fetch, *, bound: int, largest: int) -> None:
        self._directory = directory
        self._fetch = fetch
        self._bound = bound
        self._largest = largest
        self._log = logs.get(__name__)
        self._guard = threading.Lock()
        self._by_digest: dict[str, threading.Lock] = {}

    def clear_leftovers(self) -> None:
        """Remove what an earlier agent was unpacking or deleting when it ended."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self._directory.glob(".*"):
            shutil.rmtree(path, ignore_errors=True)

    def copy(self, digest: str, target: Path) -> None:
        """Give a run its own copy of a bundle's tree.

        Args:
            digest: of the bundle; fetched and unpacked when it is not here yet.
            target: a directory that is made here.

        Raises:
            UnsafeBundle: the bundle is damaged, too large, or leaves its tree.
            OSError: the disk is full, or not ours.
        """
        with self.tree(digest) as tree:
            copy_tree(tree, target)

    @contextmanager
    def tree(self, digest: str) -> Iterator[Path]:
        """A bundle's unpacked tree; it stays as long as the block lasts."""
        held = self._hold(digest)
        if held is None:
            held = self._add(digest)
        try:
            path = self._directory / digest
            os.utime(path)  # the time of last use, by which eviction chooses
            yield path / "tree"
        finally:
            os.close(held)

    def evict(self, *, needed: int = 0) -> list[str]:
        """Delete least recently used trees that nobody uses until the bound holds.

        Args:
            needed: bytes that are about to be added.

        Returns:
            Digests that were evicted.
        """
        entries = [e for e in map(self._entry, self._directory.glob("[!.]*")) if e is not None]
        total = sum(size for _, _, size in entries) + needed
        evicted = []
        for _, digest, size in sorted(entries):
            if total <= self._bound:
                break
            if self._delete(digest):
                total -= size
                evicted.append(digest)
        return evicted

    def _entry(self, path: Path) -> tuple[float, str, int] | None:
        try:
            return path.stat().st_mtime, path.name, int((path / "size").read_text())
        except (OSError, ValueError):
            return None

    def _hold(self, digest: str) -> int | None:
        """A descriptor with the shared lock on a tree's directory; None when it is not here."""
        path = self._directory / digest
        while True:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            try:
                if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                    return descriptor
            except FileNotFoundError:
                pass
            os.close(descriptor)  # it was evicted between the open and the lock

    def _delete(self, digest: str) -> bool:
        path = self._directory / digest
        doomed = self._directory / f".{digest}.{uuid4().hex}"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(path, doomed)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        shutil.rmtree(doomed, ignore_errors=True)
        self._log.info("content evicted", digest=digest[:12])
        return True

    def _add(self, digest: str) -> int:
        """Unpack a bundle; the descriptor that holds its tree."""
        with self._guard:
            lock = self._by_digest.setdefault(digest, threading.Lock())
        with lock:
            held = self._hold(digest)
            if held is None:  # else another job asked for the same one meanwhile
                held = self._unpack(digest)
        self.evict()
        return held

    def _unpack(self, digest: str) -> int:
        began = clock.monotonic()
        draft = self._directory / f".{digest}.{uuid4().hex}"
        draft.mkdir(mode=0o700)
        held = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(held, fcntl.LOCK_SH)  # before it can be seen, and so be evicted
            size = self._unpack_verified(digest, draft / "tree")
            (draft / "size").write_text(str(size))
            sync_tree(draft)
            os.rename(draft, self._directory / digest)
            sync_directory(self._directory)
        except BaseException:
            os.close(held)
            shutil.rmtree(draft, ignore_errors=True)
            raise
        seconds = round(clock.monotonic() - began, 3)
        self._log.info("content unpacked", digest=digest[:12], bytes=size, seconds=seconds)
        return held

    def _unpack_verified(self, digest: str, tree: Path) -> int:
        """Unpack a bundle whose bytes must be those of its digest; the size of its files."""
        sha256 = hashlib.sha256()

        def read(chunks: Iterable[bytes]) -> Iterator[bytes]:
            for chunk in chunks:
                sha256.update(chunk)
                yield chunk

        with self._fetch(digest) as chunks:
            source = read(chunks)
            unpacked = unpack(source, tree, max_bytes=self._largest)
            for _ in source:
                pass  # what may follow the archive's end belongs to the digest too
        if sha256.hexdigest() != digest:
            raise UnsafeBundle(f"content {digest[:12]}: its bytes are not those of its digest")
        return unpacked.size
