"""The node's one connection for content: what runs are given, and what updates found."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine

from dispatcher.actions.store_content import Limits, read_bundle, store_bundle
from dispatcher.db.credential_rows import JobCredential, read_job_credentials
from dispatcher.db.engine import transaction
from dispatcher.db.node_rows import JobHosts
from workers.render_inventory import render_inventory


class ContentConnection:
    """Used by one thread at a time, because there is one connection for all of them.

    Args:
        engine: with that connection.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()

    @contextmanager
    def bundle(self, digest: str) -> Iterator[Iterable[bytes]]:
        """A bundle's bytes."""
        with (
            self._lock,
            transaction(self._engine, statement_timeout=30, idle_timeout=60) as connection,
        ):
            yield read_bundle(connection, digest)

    def inventory(self, hosts: JobHosts) -> Mapping[str, Any]:
        """A job's inventory from the tables, all of it from one moment."""
        with (
            self._lock,
            transaction(
                self._engine, statement_timeout=30, isolation="REPEATABLE READ"
            ) as connection,
        ):
            return render_inventory(connection, hosts)

    def credentials(self, job_id: int) -> list[JobCredential]:
        """What a job logs in with, encrypted still."""
        with self._lock, transaction(self._engine, statement_timeout=30) as connection:
            return read_job_credentials(connection, job_id)

    def store(self, digest: str, chunks: Iterator[bytes], limits: Limits) -> None:
        """Store a bundle that an update made."""
        with self._lock:
            store_bundle(self._engine, digest, chunks, limits=limits)

    @contextmanager
    def importing(self) -> Iterator[Connection]:
        """A transaction that imports an inventory."""
        with (
            self._lock,
            transaction(
                self._engine, statement_timeout=60, lock_timeout=30, idle_timeout=60
            ) as connection,
        ):
            yield connection
