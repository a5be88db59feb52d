"""The bundle that v1's runs take their content from: the root's project, packed when it has changed.

A request looks at names, sizes and times, once a second at most, and reads no file unless one of
them is new; then everything is packed and stored before the run is launched.
"""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Final

from dispatcher import clock, logs
from dispatcher.actions.store_content import Limits, missing, store_bundle
from dispatcher.api.services import Services
from dispatcher.api.v1.root_directory import RootDirectory
from dispatcher.client.pack import PackError, pack

log = logs.get(__name__)

#: Seconds between two looks.
LOOK_EVERY: Final = 1.0
#: Seconds after which a stored bundle is renewed, so that it is not removed as unused.
_RENEW_EVERY: Final = 60.0
#: Times that a tree is packed which changes meanwhile.
_TRIES: Final = 5
_PAUSE: Final = 0.05


class RootBundle:
    """The newest bundle of a root directory; one for each process."""

    def __init__(self, root: RootDirectory, services: Services) -> None:
        self._root = root
        self._services = services
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._renewed = float("-inf")
        self._changed = -1
        self._signature = b""
        self._digest = ""

    def digest(self, *, again: bool = False) -> str:
        """The digest of a stored bundle with the project as it is.

        Args:
            again: the bundle was found missing: store it anew.

        Raises:
            PackError: the project cannot be packed.
            InvalidRequest, Unavailable: it cannot be stored.
        """
        with self._lock:
            changed = self._root.changed()
            now = clock.monotonic()
            if again:
                self._digest = ""
            if self._digest and changed == self._changed and now - self._looked < LOOK_EVERY:
                return self._digest
            signature = signature_of(self._root.project)
            if not self._digest or signature != self._signature:
                self._digest = self._packed()
                self._renewed = now
                log.info("root_packed", digest=self._digest)
            elif now - self._renewed > _RENEW_EVERY:
                self._renew(now)
            # what changed while it was packed differs from this, and is packed by the next request
            self._signature, self._changed, self._looked = signature, changed, now
            return self._digest

    def _packed(self) -> str:
        settings = self._services.settings
        limits = Limits(settings.max_bundle_bytes, settings.max_bundle_unpacked_bytes)
        for left in reversed(range(_TRIES)):
            try:
                with pack(self._root.project, unpacked_limit=limits.unpacked) as bundle:
                    self._services.check_writable()
                    store_bundle(
                        self._services.engine, bundle.digest, bundle.chunks(), limits=limits
                    )
                    return bundle.digest
            except (PackError, FileNotFoundError) as error:
                if not left:
                    raise PackError(str(error)) from None
                clock.sleep(_PAUSE)  # a file that is being written or renamed
        raise AssertionError

    def _renew(self, now: float) -> None:
        with self._services.transaction() as connection:
            if missing(connection, [self._digest]):
                self._digest = ""
        if not self._digest:
            self._digest = self._packed()
        self._renewed = now


def signature_of(tree: Path) -> bytes:
    """Another value whenever a name, size, mode or time in a tree is another one."""
    digest = hashlib.sha256()
    pending = [str(tree)]
    while pending:
        directory = pending.pop()
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".new-"):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            facts = (entry.path, status.st_mode, status.st_size, status.st_mtime_ns)
            digest.update(repr((*facts, status.st_ctime_ns, status.st_ino)).encode())
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
    return digest.digest()
