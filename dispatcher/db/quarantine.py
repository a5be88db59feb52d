"""Jobs whose handling raised: counted, set aside for a while, ended after too many tries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, text

from dispatcher.db import job_moves
from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import Status

#: Seconds a job is set aside after its first, second and every further strike.
DELAYS: Final = (5, 30, 120)


def strike(
    connection: Connection, errors: Mapping[int, str], *, max_strikes: int, manager: str
) -> list[int]:
    """Count a failed try of pending jobs.

    Args:
        connection: in the transaction of a lease holder.
        errors: job id → what was raised.
        max_strikes: tries after which a job is ended.
        manager: who tried, for the explanation.

    Returns:
        The jobs that had too many tries and are failed now.
    """
    tries = _count(connection, errors, Status.PENDING)
    return job_moves.refuse(
        connection,
        {
            job_id: (Outcome.REFUSED, _explanation(manager, count, errors[job_id]))
            for job_id, count in tries.items()
            if count >= max_strikes
        },
    )


def strike_running(
    connection: Connection, errors: Mapping[int, str], *, max_strikes: int, manager: str
) -> list[int]:
    """Count a failed try of running workflow jobs; see :func:`strike`. The hopeless end in error."""
    tries = _count(connection, errors, Status.RUNNING)
    finished = [
        job_moves.finish(
            connection,
            job_id,
            dispatch_id=None,
            outcome=Outcome.INTERNAL,
            explanation=_explanation(manager, count, errors[job_id]),
        )
        for job_id, count in sorted(tries.items())
        if count >= max_strikes
    ]
    return [done.job_id for done in finished if done is not None]


def next_release(connection: Connection, *, status: Status = Status.PENDING) -> datetime | None:
    """When the next job that is set aside is to be looked at again."""
    until: datetime | None = connection.execute(
        text(
            "SELECT min(quarantined_until) FROM job WHERE status = :status"
            " AND quarantined_until > dispatcher_now()"
        ),
        {"status": str(status)},
    ).scalar()
    return until


def _count(connection: Connection, errors: Mapping[int, str], status: Status) -> dict[int, int]:
    rows = connection.execute(
        text(
            "UPDATE job SET strikes = strikes + 1, quarantined_until = dispatcher_now() +"
            " make_interval(secs => (CAST(:delays AS int[]))[least(strikes + 1, :longest)])"
            " WHERE id = ANY(CAST(:jobs AS bigint[])) AND status = :status RETURNING id, strikes"
        ),
        {
            "jobs": list(errors),
            "delays": list(DELAYS),
            "longest": len(DELAYS),
            "status": str(status),
        },
    )
    return dict(rows.all())


def _explanation(manager: str, tries: int, error: str) -> str:
    return f"The {manager} manager could not handle this job in {tries} tries: {error}"
