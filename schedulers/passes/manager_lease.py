"""The lease of a manager, and the counter of requests beside it (docs/protocols.md 1.3 and 2).

A lease is a row with an epoch. Every acquisition raises the epoch, and every later write begins by
renewing the row under the epoch it was taken with: whoever was frozen past the lease finds a higher
one and is refused, with the row locked, before it writes anything. Nothing relies on the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from psycopg2.extras import Json
from sqlalchemy import Connection, Engine, Row, text
from sqlalchemy.exc import OperationalError

from dispatcher.db.engine import transaction
from dispatcher.errors import LeaseLost
from schedulers.passes.holder import Holder

#: Seconds a trigger waits for a lock.
TRIGGER_LOCK_TIMEOUT: Final = 1.0
#: An expiry further ahead than this many leases was written before the database's clock was set
#: back; taking over is safe at any moment, because of the epoch.
_FAR_AHEAD: Final = 4


@dataclass(frozen=True)
class Walk:
    """A walk through a backlog that goes on in the next pass.

    Attributes:
        change: the change counter in the snapshot at its head.
        due: the earliest time at which something that it has seen depends on the clock alone.
    """

    change: int
    due: datetime | None


@dataclass(frozen=True)
class Lease:
    """A lease as it was taken.

    Attributes:
        name: which one; a manager's name, or ``beat``.
        epoch: of this acquisition; the only thing that later writes compare.
        seconds: how long it lives without renewal.
        asked: requests made until now; read before the pass's first snapshot.
        window_jobs: the window that the holder before had open; empty when it ended in order.
        window_kills: how often in a row such a window was left open.
        cursors: where the pass before stopped; empty: at the end.
        done_at_change: the change counter of the last pass that walked everything.
        next_due: the earliest time at which something depends on the clock alone.
    """

    name: str
    epoch: int
    seconds: float
    asked: int = 0
    window_jobs: tuple[int, ...] = ()
    window_kills: int = 0
    cursors: Mapping[str, Any] = field(default_factory=dict)
    done_at_change: int | None = None
    next_due: datetime | None = None


def request(engine: Engine, name: str) -> int:
    """Count a trigger, and commit that, before anybody tries to take the lease.

    The holder reads the counter after it has committed its release. Both write before they read,
    so one of the two sees the other.

    Returns:
        The number of requests so far.
    """
    with transaction(engine, lock_timeout=TRIGGER_LOCK_TIMEOUT) as connection:
        return int(
            connection.execute(
                text(
                    "UPDATE manager_request SET requested = requested + 1 WHERE manager = :name"
                    " RETURNING requested"
                ),
                {"name": name},
            ).scalar_one()
        )


def requested(connection: Connection, name: str) -> int:
    """How many requests were made so far."""
    return int(
        connection.execute(
            text("SELECT requested FROM manager_request WHERE manager = :name"), {"name": name}
        ).scalar_one()
    )


def take(engine: Engine, name: str, holder: Holder, seconds: float) -> Lease | None:
    """Take the lease if it is free, expired, one's own, or held by a process that is gone.

    A row that is locked belongs to somebody at work: then nobody waits for it.

    Returns:
        None when it is held.
    """
    try:
        with transaction(engine, lock_timeout=TRIGGER_LOCK_TIMEOUT) as connection:
            row = connection.execute(
                text(
                    "SELECT *, expires_at <= dispatcher_now() OR expires_at >"
                    " dispatcher_now() + make_interval(secs => :far) AS expired"
                    " FROM manager_lease WHERE manager = :name FOR UPDATE SKIP LOCKED"
                ),
                {"name": name, "far": _FAR_AHEAD * seconds},
            ).one_or_none()
            if row is None or not _is_free(row, holder):
                return None
            return _write_taken(connection, row, holder, seconds)
    except OperationalError as error:
        if getattr(error.orig, "pgcode", None) == "55P03":  # lock_not_available
            return None
        raise


def _is_free(row: Row[Any], holder: Holder) -> bool:
    if row.holder is None or row.expired or row.holder == holder.id:
        return True
    return holder.sees_gone(Holder(row.holder, row.host, row.boot_id, row.pid, row.pid_start))


def _write_taken(connection: Connection, row: Row[Any], holder: Holder, seconds: float) -> Lease:
    # a window that this very process left open ended in an error: nobody was killed over it
    killed = bool(row.window_jobs) and row.holder != holder.id
    taken = connection.execute(
        text(
            "UPDATE manager_lease SET epoch = epoch + 1, holder = :holder, host = :host,"
            " boot_id = :boot_id, pid = :pid, pid_start = :pid_start, window_kills = :kills,"
            " expires_at = dispatcher_now() + make_interval(secs => :seconds)"
            " WHERE manager = :name RETURNING epoch,"
            " (SELECT requested FROM manager_request WHERE manager = :name)"
        ),
        {
            "name": row.manager,
            "holder": holder.id,
            "host": holder.host,
            "boot_id": holder.boot_id,
            "pid": holder.pid,
            "pid_start": holder.pid_start,
            "kills": row.window_kills + killed,
            "seconds": seconds,
        },
    ).one()
    return Lease(
        name=row.manager,
        epoch=taken[0],
        seconds=seconds,
        asked=taken[1] or 0,
        window_jobs=tuple(row.window_jobs),
        window_kills=row.window_kills + killed,
        cursors=row.cursors,
        done_at_change=row.done_at_change,
        next_due=row.next_due,
    )


def renew(connection: Connection, lease: Lease) -> None:
    """Renew the lease, and keep its row locked to the end of the transaction.

    The first statement of every transaction that a holder writes in.

    Raises:
        LeaseLost: somebody has taken it since; nothing may be written.
    """
    try:
        renewed = connection.execute(
            text(
                "UPDATE manager_lease"
                " SET expires_at = dispatcher_now() + make_interval(secs => :seconds)"
                " WHERE manager = :name AND epoch = :epoch"
            ),
            {"name": lease.name, "epoch": lease.epoch, "seconds": lease.seconds},
        ).rowcount
    except OperationalError as error:
        # repeatable read: somebody took the lease after the snapshot
        if getattr(error.orig, "pgcode", None) != "40001":
            raise
        renewed = 0
    if renewed != 1:
        raise LeaseLost(f"lease {lease.name}: epoch {lease.epoch} is over")


def open_window(connection: Connection, lease: Lease, jobs: Sequence[int]) -> None:
    """Note what is about to be planned, so that a window that kills its process is found."""
    _set(connection, lease, "window_jobs = :jobs", {"jobs": list(jobs)})


def close_window(
    connection: Connection, lease: Lease, *, cursors: Mapping[str, Any], clear_kills: bool
) -> None:
    """The window was applied: nothing is open, and the next pass would go on at ``cursors``."""
    _set(
        connection,
        lease,
        "window_jobs = '{}', cursors = :cursors,"
        " window_kills = CASE WHEN :clear THEN 0 ELSE window_kills END",
        {"cursors": Json(dict(cursors)), "clear": clear_kills},
    )


def finish_pass(
    connection: Connection,
    lease: Lease,
    *,
    done_at_change: int | None,
    next_due: datetime | None,
    walk: Walk | None,
) -> None:
    """Note what a pass has reached.

    Args:
        done_at_change, next_due: only after it has walked everything.
        walk: what it leaves to the pass that goes on where it stopped.
    """
    _set(
        connection,
        lease,
        "done_at_change = :done, next_due = :due",
        {"done": done_at_change, "due": next_due},
    )
    if walk is not None:
        connection.execute(
            text(
                "INSERT INTO manager_walk (manager, epoch, change, due)"
                " VALUES (:name, :epoch, :change, :due) ON CONFLICT (manager) DO UPDATE SET"
                " epoch = excluded.epoch, change = excluded.change, due = excluded.due"
            ),
            {"name": lease.name, "epoch": lease.epoch, "change": walk.change, "due": walk.due},
        )


def read_walk(connection: Connection, lease: Lease) -> Walk | None:
    """What the pass right before this one has left.

    Returns:
        None when somebody else had the lease in between, who may have died over the walk.
    """
    row = connection.execute(
        text("SELECT change, due FROM manager_walk WHERE manager = :name AND epoch = :epoch - 1"),
        {"name": lease.name, "epoch": lease.epoch},
    ).one_or_none()
    return None if row is None else Walk(row.change, row.due)


def release(connection: Connection, lease: Lease, *, completed: bool) -> None:
    """Give the lease back and note which requests the pass has served.

    Args:
        connection: in a transaction that began with :func:`renew`.
        lease: the lease.
        completed: whether the pass came to its own end, so that it counts for the timer.
    """
    _set(
        connection,
        lease,
        # a window that is still open failed in a process that lived on: nobody was killed over it
        "holder = NULL, expires_at = dispatcher_now(), window_jobs = '{}', last_pass_at ="
        " CASE WHEN :completed THEN dispatcher_now() ELSE last_pass_at END",
        {"completed": completed},
    )
    if completed:
        connection.execute(
            text(
                "UPDATE manager_request SET served = greatest(served, :asked) WHERE manager = :name"
            ),
            {"name": lease.name, "asked": lease.asked},
        )


def _set(connection: Connection, lease: Lease, what: str, values: dict[str, Any]) -> None:
    connection.execute(
        text(f"UPDATE manager_lease SET {what} WHERE manager = :name AND epoch = :epoch"),
        values | {"name": lease.name, "epoch": lease.epoch},
    )
