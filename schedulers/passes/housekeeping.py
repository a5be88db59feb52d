"""Housekeeping: partitions made ahead, and everything removed whose time is over.

Each chore is a few short transactions. A chore that meets a lock, or takes too long, is put off
and holds up no other; running work is never made to wait for one (docs/protocols.md 5.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from dispatcher import clock, logs
from dispatcher.db.content_queries import BUNDLES_AT_ONCE, delete_unused_bundles
from dispatcher.db.engine import transaction
from dispatcher.db.partitions import (
    drop_partition,
    empty_partition,
    ensure_partitions,
    expired_days,
)
from dispatcher.db.retention import delete_finished_jobs
from dispatcher.settings import Settings
from schedulers.passes import apply_recovery

log = logs.get(__name__)

#: Seconds between two rounds of a chore in one process.
EVERY: Final = 600.0
#: Seconds until a chore is tried again after it met a lock.
RETRY: Final = 30.0
#: Seconds of one round, after which further chores wait for the next pass.
ROUND: Final = 4.0
#: Most jobs that are deleted in one transaction, with all that hangs on them.
JOBS_AT_ONCE: Final = 500
#: Seconds for which a chore that locks all of ``job_event`` may keep writers of events waiting: they
#: queue behind a lock that itself waits for a reader.
PARTITION_LOCK_TIMEOUT: Final = 0.05
DAY: Final = 86_400.0


class Housekeeping:
    """The chores, and when each is due; remembers nothing that another process would need.

    Args:
        engine: of the process's one connection.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._jobs_at_once = JOBS_AT_ONCE
        # in this order: a round that is cut short has at least made partitions
        self._chores: dict[str, Callable[[Settings], tuple[int, bool]]] = {
            "partitions made": self._make_partitions,
            "idempotency keys deleted": self._delete_keys,
            "bundles deleted": self._delete_bundles,
            "jobs deleted": self._delete_jobs,
            "partitions dropped": self._drop_partitions,
        }
        self._due = dict.fromkeys(self._chores, 0.0)

    def run(self, settings: Settings) -> None:
        """Do what is due; one that leaves more to do is due again in the next pass."""
        began = clock.monotonic()
        for chore, work in self._chores.items():
            now = clock.monotonic()
            if now - began > ROUND:
                return
            if now < self._due[chore]:
                continue
            try:
                done, more = work(settings)
            except DBAPIError as error:
                self._due[chore] = now + RETRY
                log.warning("housekeeping put off", chore=chore, error=str(error.orig).strip())
                continue
            self._due[chore] = now if more else now + EVERY
            if done:
                log.info("housekeeping", chore=chore, count=done)

    def _make_partitions(self, _settings: Settings) -> tuple[int, bool]:
        with transaction(self._engine, lock_timeout=PARTITION_LOCK_TIMEOUT) as connection:
            return len(ensure_partitions(connection)), False

    def _delete_keys(self, _settings: Settings) -> tuple[int, bool]:
        with transaction(self._engine, lock_timeout=1.0) as connection:
            deleted = apply_recovery.delete_idempotency_keys(connection)
        return deleted, deleted == apply_recovery.DELETED_AT_ONCE

    def _delete_bundles(self, _settings: Settings) -> tuple[int, bool]:
        with transaction(self._engine, lock_timeout=1.0) as connection:
            deleted = len(delete_unused_bundles(connection))
        return deleted, deleted == BUNDLES_AT_ONCE

    def _delete_jobs(self, settings: Settings) -> tuple[int, bool]:
        """One batch; of half as many jobs after one that took too long: they may have much."""
        if not settings.keep_jobs_days:
            return 0, False
        most = self._jobs_at_once
        self._jobs_at_once = max(1, most // 2)
        with transaction(self._engine, statement_timeout=ROUND, lock_timeout=1.0) as connection:
            deleted = delete_finished_jobs(connection, age=settings.keep_jobs_days * DAY, most=most)
        self._jobs_at_once = min(JOBS_AT_ONCE, 2 * most)
        # what was deleted may have kept others, such as the children of a workflow
        return deleted, deleted > 0

    def _drop_partitions(self, settings: Settings) -> tuple[int, bool]:
        """One day. Its room is given back first, because the drop may have to be put off."""
        if not settings.keep_jobs_days:
            return 0, False
        with transaction(self._engine, lock_timeout=1.0) as connection:
            days = expired_days(connection, age=settings.keep_jobs_days * DAY)
        if not days:
            return 0, False
        with transaction(self._engine, lock_timeout=1.0) as connection:
            empty_partition(connection, days[0])
        with transaction(self._engine, lock_timeout=PARTITION_LOCK_TIMEOUT) as connection:
            drop_partition(connection, days[0])
        return 1, len(days) > 1
