"""Takes waiting jobs of this node: directory, claim, preparation, one more look at the flags, start.

Everything is done by the agent's claiming thread; only filling a directory happens elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, Engine

from dispatcher import logs
from dispatcher.actions.resolve_targets import resolve_jobs
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import claim_content, job_moves, node_rows
from dispatcher.db.change import raise_counter
from dispatcher.db.engine import transaction
from dispatcher.db.node_rows import JobInput, NodeJob, Pair
from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import Status
from dispatcher.metrics import CLAIMS, QUEUE_WAIT
from dispatcher.settings import Settings
from workers import lease_file
from workers.courier import Courier
from workers.prepare import LAPSED, Preparer
from workers.recover_runs import Recovery
from workers.run_dir import RunDir
from workers.runs import Phase, Run, Runs, Verdict, note_job
from workers.shipper import Shipper
from workers.supervisors import Supervisors

#: Most claims in one transaction.
MOST_AT_ONCE: Final = 100
_CANCELED = Verdict(Outcome.CANCELED, "canceled before the playbook was started")


class Claimer:
    """Claims and starts, in the order in which jobs wait, as far as there is room.

    Args:
        node_id, epoch: of the registration.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        runs: Runs,
        supervisors: Supervisors,
        preparer: Preparer,
        recovery: Recovery,
        shipper: Shipper,
        courier: Courier,
        *,
        node_id: int,
        epoch: int,
    ) -> None:
        self._settings = settings
        self._lease_file = lease_file.lease_path(settings.data_dir)
        self._engine = engine
        self._runs = runs
        self._supervisors = supervisors
        self._preparer = preparer
        self._recovery = recovery
        self._shipper = shipper
        self._courier = courier
        self._node_id = node_id
        self._epoch = epoch
        self._log = logs.get(__name__)
        #: Waiting jobs by dispatch, those that wait longest first.
        self._queue: dict[UUID, int] = {}
        self._said_queued: set[UUID] = set()

    # -- what waits

    def offer(self, pairs: Iterable[Pair]) -> None:
        """Jobs that a message named. A dispatch that is known already changes nothing."""
        for job_id, dispatch_id in pairs:
            if dispatch_id in self._queue or self._runs.get(dispatch_id) is not None:
                CLAIMS.labels("duplicate").inc()
            else:
                self._queue[dispatch_id] = job_id

    def see(self, rows: Sequence[NodeJob]) -> None:
        """The waiting rows of this node as they are now; they replace what was known."""
        waiting = [r for r in rows if r.status is Status.WAITING and r.dispatch_id is not None]
        self._queue = {
            row.dispatch_id: row.job_id
            for row in waiting
            if row.dispatch_id is not None and self._may_claim(row.dispatch_id)
        }
        self._said_queued = {r.dispatch_id for r in waiting if r.dispatch_id and r.queued_on_node}

    def _may_claim(self, dispatch_id: UUID) -> bool:
        run = self._runs.get(dispatch_id)
        return run is None or run.phase is Phase.CLAIMING

    def forget_all(self) -> None:
        """Nothing waits here any more: it was returned."""
        self._queue.clear()

    @property
    def queued(self) -> int:
        """Jobs that wait for room here."""
        return len(self._queue)

    # -- claiming

    def claim(self) -> bool:
        """Claim what there is room for; say of the rest that it waits here.

        Returns:
            Whether one transaction was not enough: there are jobs and room for more of them.

        Raises:
            RunDirectoryError: no directory can be made: the disk is full, or not ours.
        """
        if not self._queue:
            return False
        claiming = self._runs.at(Phase.CLAIMING)
        room = self._settings.node_max_jobs - self._runs.occupied() + len(claiming)
        chosen = list(self._queue.items())[: min(max(room, 0), MOST_AT_ONCE)]
        if chosen:
            self._claim([self._directory_for(job_id, d) for d, job_id in chosen])
            for dispatch_id, _ in chosen:
                self._queue.pop(dispatch_id, None)
        if room < len(chosen) + len(self._queue):
            self._say_queued()
        return len(chosen) < min(room, len(chosen) + len(self._queue))

    def _directory_for(self, job_id: int, dispatch_id: UUID) -> Run:
        known = self._runs.get(dispatch_id)
        if known is not None:
            return known  # of a claim whose commit had an unknown end
        directory = RunDir.create(self._settings.data_dir, str(dispatch_id))
        note_job(directory, job_id)
        run = Run(job_id, dispatch_id, directory, Phase.CLAIMING)
        self._runs.add(run)
        return run

    def _claim(self, runs: Sequence[Run]) -> None:
        pairs = [run.pair for run in runs]
        with transaction(self._engine) as connection:
            owed = self._return_moved(connection, pairs)
            claimed = job_moves.claim(connection, pairs, node_id=self._node_id, epoch=self._epoch)
            claim_content.resolve_bundles(connection, [c.job_id for c in claimed])
            inputs = node_rows.read_inputs(connection, [c.job_id for c in claimed])
            if owed:
                raise_counter(connection)
        self._courier.owe(owed)
        canceled = {c.dispatch_id for c in claimed if c.cancel_requested}
        by_dispatch = {i.dispatch_id: i for i in inputs}
        for run in runs:
            job_input = by_dispatch.get(run.dispatch_id)
            if job_input is None:
                CLAIMS.labels("stale").inc()
                self._log.info("not claimed: the job has moved on", **run.names)
                run.directory.remove()
                self._runs.forget(run)
                continue
            CLAIMS.labels("claimed").inc()
            QUEUE_WAIT.labels(job_input.blocker or "none").observe(job_input.waited)
            self._log.info("job claimed", waited=round(job_input.waited, 3), **run.names)
            if run.enter(Phase.PREPARING):
                run.verdict = _CANCELED if run.dispatch_id in canceled else None
                self._fill(run, job_input)

    def _return_moved(self, connection: Connection, pairs: Sequence[Pair]) -> Owed:
        """Give jobs back whose inventory has moved since their hosts were locked (3.10)."""
        moved = claim_content.moved_inventories(connection, pairs)
        if not moved:
            return Owed()
        reason = {
            "code": "returned",
            "data": {"node": self._settings.node_name or "", "why": "inventory_moved"},
        }
        returned = job_moves.return_jobs(connection, reason=reason, dispatches=moved)
        return resolve_jobs(connection, returned) + wake(Manager.TASK)

    def _fill(self, run: Run, job_input: JobInput) -> None:
        if run.verdict is not None:
            self._recovery.end_unstarted(run, run.verdict)
        else:
            self._preparer.submit(run, job_input)

    def prepare(self, runs: Sequence[Run]) -> None:
        """Fill and start runs that are claimed already: an earlier agent's, or of a lost answer."""
        if not runs:
            return
        with transaction(self._engine) as connection:
            inputs = node_rows.read_inputs(connection, [run.job_id for run in runs])
        by_dispatch = {i.dispatch_id: i for i in inputs}
        for run in runs:
            if run.dispatch_id in by_dispatch:
                self._fill(run, by_dispatch[run.dispatch_id])

    def _say_queued(self) -> None:
        new = [(job_id, d) for d, job_id in self._queue.items() if d not in self._said_queued]
        if new:
            with transaction(self._engine) as connection:
                node_rows.mark_queued(connection, new)
            self._said_queued.update(dispatch_id for _, dispatch_id in new)
            CLAIMS.labels("no_room").inc(len(new))
            self._log.info("no room: jobs wait on this node", jobs=[job_id for job_id, _ in new])

    # -- starting

    def start_ready(self, refusal: Verdict | None) -> None:
        """Start what is filled, after one more look at the cancel flags.

        Args:
            refusal: how runs end instead, when nothing may be started any more.
        """
        ready = self._runs.at(Phase.READY)
        if not ready:
            return
        with transaction(self._engine) as connection:
            canceled = node_rows.canceled_among(connection, [run.pair for run in ready])
        for run in ready:
            verdict = run.verdict or refusal
            if run.dispatch_id in canceled:
                verdict = _CANCELED
            if verdict is None and lease_file.remaining(self._lease_file) <= 0:
                verdict = LAPSED
            if verdict is not None:
                self._recovery.end_unstarted(run, verdict)
            else:
                self._supervisors.start(run)
        self._shipper.wake()

    def stop_canceled(self, pairs: Sequence[Pair]) -> None:
        """Read the cancel flags of these runs now, and stop those that are to be stopped."""
        with transaction(self._engine) as connection:
            canceled = node_rows.canceled_among(connection, pairs)
        for dispatch_id in canceled:
            run = self._runs.get(dispatch_id)
            if run is not None and run.phase is Phase.STARTED:
                self._supervisors.request_stop(run, "cancel")
