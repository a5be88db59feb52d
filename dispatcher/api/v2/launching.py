"""Launches: an accepted job is answered, and never launched twice because a commit was not answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, TypeVar
from uuid import UUID, uuid4

from fastapi import Header
from sqlalchemy import Connection

from dispatcher import clock, logs
from dispatcher.actions.launched import Launched
from dispatcher.api.auth import Caller
from dispatcher.api.v2.resource import Row
from dispatcher.broker.messages import Manager, wake
from dispatcher.db import job_queries
from dispatcher.errors import Unavailable

log = logs.get(__name__)

#: Pauses (seconds) before each look for a job whose commit was not answered: a backend that lost
#: its client may still be committing.
_LOOKS: Final = (0.0, 0.2, 0.8)

IdempotencyKey = Annotated[
    str | None,
    Header(description="The same key and body again, by the same token's name, is the same job."),
]
Launch = Callable[[Connection, str, UUID], Launched]
T = TypeVar("T")


def launch(caller: Caller, act: Launch) -> tuple[Row, Launched]:
    """:func:`launch_and_read` with the job's row."""
    return launch_and_read(caller, act, _row)


def _row(connection: Connection, job_id: int) -> Row:
    row = job_queries.read_job(connection, job_id)
    assert row is not None
    return row


def launch_and_read(
    caller: Caller, act: Launch, read: Callable[[Connection, int], T]
) -> tuple[T, Launched]:
    """Launch in a transaction, publish what is owed; the job as read, and what the action answered.

    Args:
        act: given the connection, the name of whoever asks, and the uuid of the job.
        read: the job with this number.

    Raises:
        Unavailable: nothing was stored, as far as can be known.
    """
    uuid, sent = uuid4(), False
    try:
        with caller.named_transaction() as (connection, principal):
            sent = True
            launched = act(connection, principal, uuid)
            found = read(connection, launched.job_id)
    except Unavailable:
        if not sent:
            raise
        found, launched = _find(caller, uuid, read)
    log.info("job_launched" if launched.created else "job_launched_before", job_id=launched.job_id)
    caller.services.publisher.publish(launched.owed)
    return found, launched


def _find(caller: Caller, uuid: UUID, read: Callable[[Connection, int], T]) -> tuple[T, Launched]:
    """Look for a job whose commit may have succeeded (docs/protocols.md 1.6)."""
    log.warning("commit_outcome_unknown", uuid=str(uuid))
    for pause in _LOOKS:
        clock.sleep(pause)
        with caller.reading() as connection:
            job_id = job_queries.find_by_uuid(connection, uuid)
            if job_id is not None:
                owed = wake(Manager.TASK, Manager.DEPENDENCY)
                return read(connection, job_id), Launched(job_id, uuid, True, owed)
    raise Unavailable("the database went away; the job was not stored")
