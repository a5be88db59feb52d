"""Nodes without Ansible: a thread that claims what waits, finishes it in time, and renews leases.

The moves, the touches and the wake-ups are those of real nodes; what is left out is Ansible.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from uuid import UUID

from sqlalchemy import Engine, text

from dispatcher import clock
from dispatcher.broker.celery_app import make_app
from dispatcher.broker.messages import Manager, Owed
from dispatcher.broker.publish import Publisher
from dispatcher.db import job_moves
from dispatcher.db.change import raise_counter
from dispatcher.db.engine import transaction
from dispatcher.db.workflow_touches import touch_workflows_of
from dispatcher.domain.outcome import Outcome
from dispatcher.settings import Settings

#: Seconds between two looks for waiting jobs, and between two renewals.
LOOK, RENEW = 0.02, 1.0


class InstantNodes:
    """All registered nodes, acted.

    Args:
        engine: a pool of two at least.
        settings: where the broker is.
        lasts: job id → seconds that it runs; None: jobs are claimed and finished by the caller.
    """

    def __init__(
        self, engine: Engine, settings: Settings, *, lasts: Callable[[int], float] | None
    ) -> None:
        self._engine = engine
        self._publisher = Publisher(make_app(settings, profile="publisher"))
        self._publisher.warm()
        self._lasts = lasts
        self._ends: list[tuple[float, int, UUID]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def claim(self) -> list[tuple[int, UUID]]:
        """waiting → running, whatever waits."""
        waiting: dict[int, list[tuple[int, UUID]]] = defaultdict(list)
        with transaction(self._engine) as connection:
            for node, job, dispatch in connection.execute(
                text("SELECT node_id, id, dispatch_id FROM job WHERE status = 'waiting'")
            ):
                waiting[node].append((job, dispatch))
        claimed = []
        for node, pairs in waiting.items():
            with transaction(self._engine) as connection:
                got = job_moves.claim(connection, pairs, node_id=node, epoch=1)
                claimed += [(each.job_id, each.dispatch_id) for each in got]
        return claimed

    def finish(self, pairs: Collection[tuple[int, UUID]]) -> None:
        """running → successful, and whoever waits for that is woken."""
        if not pairs:
            return
        wakes = {Manager.TASK}
        with transaction(self._engine) as connection:
            for job, dispatch in pairs:
                job_moves.finish(
                    connection,
                    job,
                    dispatch_id=dispatch,
                    outcome=Outcome.SUCCESSFUL,
                    explanation="",
                )
            if touch_workflows_of(connection, [job for job, _ in pairs]):
                wakes.add(Manager.WORKFLOW)
            raise_counter(connection)
        self.publish(Owed(wakes=frozenset(wakes)))

    def publish(self, owed: Owed) -> None:
        """Send what is owed after a commit."""
        self._publisher.publish(owed)

    def renew(self) -> None:
        """All leases: recovery counts nodes that do not."""
        with transaction(self._engine) as connection:
            connection.execute(text("UPDATE node_lease SET seq = seq + 1"))

    def _run(self) -> None:
        renewed = clock.monotonic()
        while not self._stopping.wait(LOOK):
            if self._lasts is not None:
                self._play(self._lasts)
            if clock.monotonic() - renewed >= RENEW:
                renewed = clock.monotonic()
                self.renew()

    def _play(self, lasts: Callable[[int], float]) -> None:
        """Claim what waits, and finish what has run for as long as it lasts."""
        claimed, now = self.claim(), clock.monotonic()
        for job, dispatch in claimed:
            heappush(self._ends, (now + lasts(job), job, dispatch))
        due = []
        while self._ends and self._ends[0][0] <= now:
            due.append(heappop(self._ends)[1:])
        self.finish(due)

    @contextmanager
    def running(self) -> Iterator[InstantNodes]:
        """The thread works until the block ends."""
        self._thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            self._thread.join()
