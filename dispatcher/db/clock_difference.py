"""How far this machine's wall clock is from the database's; no decision depends on it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, text

from dispatcher import clock
from dispatcher.metrics import CLOCK_DIFFERENCE


def measure_clock(connection: Connection) -> float:
    """Ask the database what time it is, and note the difference: see :func:`note_clock`."""
    sent = clock.now()
    at = connection.execute(text("SELECT dispatcher_now()")).scalar_one()
    return note_clock(sent, at, clock.now())


def note_clock(sent: datetime, at: datetime, answered: datetime) -> float:
    """Note the difference to ``at``, which the database said between ``sent`` and ``answered``.

    Returns:
        Seconds that this machine's clock is ahead.
    """
    ahead = (sent + (answered - sent) / 2 - at).total_seconds()
    CLOCK_DIFFERENCE.set(ahead)
    return ahead
