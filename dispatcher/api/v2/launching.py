"""Launches: an accepted job is answered, and never launched twice because a commit was not answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final
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


def launch(caller: Caller, act: Launch) -> tuple[Row, Launched]:
    """Launch in a transaction, publish what is owed; the job's row, and what the action answered.

    Args:
        act: given the connection, the name of whoever asks, and the uuid of the job.

    Raises:
        Unavailable: nothing was stored, as far as can be known.
    """
    uuid, sent = uuid4(), False
    try:
        with caller.named_transaction() as (connection, principal):
            sent = True
            launched = act(connection, principal, uuid)
            row = job_queries.read_job(connection, launched.job_id)
            assert row is not None
    except Unavailable:
        if not sent:
            raise
        row, launched = _find(caller, uuid)
    log.info("job_launched" if launched.created else "job_launched_before", job_id=row["id"])
    caller.services.publisher.publish(launched.owed)
    return row, launched


def _find(caller: Caller, uuid: UUID) -> tuple[Row, Launched]:
    """Look for a job whose commit may have succeeded (docs/protocols.md 1.6)."""
    log.warning("commit_outcome_unknown", uuid=str(uuid))
    for pause in _LOOKS:
        clock.sleep(pause)
        with caller.reading() as connection:
            job_id = job_queries.find_by_uuid(connection, uuid)
            row = None if job_id is None else job_queries.read_job(connection, job_id)
        if row is not None:
            owed = wake(Manager.TASK, Manager.DEPENDENCY)
            return row, Launched(row["id"], uuid, True, owed)
    raise Unavailable("the database went away; the job was not stored")
