"""A node that a test acts itself: starts, claims, stores events and finishes, by the real moves."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy import Engine, insert, select, text

from dispatcher.db import job_moves
from dispatcher.db import tables as t
from dispatcher.db.engine import transaction
from dispatcher.domain.outcome import Outcome
from tests.factories import add_events, default_group, make_node
from tests.waiting import wait_until


class ActingNode:
    """One registered node, and the moves of its jobs when the test says so."""

    def __init__(self, engine: Engine, name: str = "n1") -> None:
        self._engine = engine
        self._dispatches: dict[int, uuid.UUID] = {}
        with transaction(engine) as connection:
            self._node_id = make_node(connection, name)

    def newest_job(self, *, after: int = 0) -> int:
        """The number of the newest job, once there is one past ``after``."""

        def look() -> int:
            with transaction(self._engine) as connection:
                found = connection.scalar(text("SELECT coalesce(max(id), 0) FROM job"))
            return int(found or 0) if (found or 0) > after else 0

        return wait_until(look, what="a job was launched")

    def claim(self, job_id: int) -> None:
        """pending → waiting → running."""
        dispatch_id = self._dispatches[job_id] = uuid.uuid4()
        with transaction(self._engine) as connection:
            group = default_group(connection)
            row = job_moves.StartRow(job_id, dispatch_id, self._node_id, group)
            assert job_moves.start(connection, [row])
        with transaction(self._engine) as connection:
            pairs = [(job_id, dispatch_id)]
            assert job_moves.claim(connection, pairs, node_id=self._node_id, epoch=1)

    def hold(self, job_id: int, code: str, **data: object) -> None:
        """Leave the job pending, for this reason."""
        with transaction(self._engine) as connection:
            connection.execute(
                t.job.update()
                .where(t.job.c.id == job_id)
                .values(pending_reason={"code": code, "data": data})
            )

    def print(self, job_id: int, lines: Sequence[str]) -> None:
        """Store an event for each of these lines."""
        with transaction(self._engine) as connection:
            add_events(connection, job_id, lines)

    def cancel_requested(self, job_id: int) -> bool:
        """Whether somebody asked for the job's cancel."""
        with transaction(self._engine) as connection:
            asked = connection.scalar(select(t.job.c.cancel_requested).where(t.job.c.id == job_id))
        return bool(asked)

    def finish(
        self, job_id: int, outcome: Outcome, explanation: str = "", *, hosts: Sequence[str] = ()
    ) -> None:
        """running → final, with a host summary of one changed task for each of ``hosts``."""
        with transaction(self._engine) as connection:
            for host in hosts:
                row = {"job_id": job_id, "host_name": host, "ok": 2, "changed": 1}
                connection.execute(insert(t.job_host_summary).values(row))
            assert job_moves.finish(
                connection,
                job_id,
                dispatch_id=self._dispatches[job_id],
                outcome=outcome,
                explanation=explanation,
            )
