"""What becomes of run directories and rows that do not go together (docs/protocols.md 3.3, 3.4, 5.4).

Compared when the agent starts, after every reconnect and with every look at the rows.
:mod:`workers.run_directories` decides; this module carries it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Engine

from dispatcher import clock, logs
from dispatcher.broker.messages import Owed
from dispatcher.db import job_moves, node_rows
from dispatcher.db.engine import transaction
from dispatcher.db.node_rows import NodeJob
from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import FINAL, Status
from dispatcher.errors import RunDirectoryError
from dispatcher.settings import Settings
from workers import finish
from workers.run_dir import RunDir
from workers.run_directories import Todo, decide, dispatch_of, job_of, look
from workers.runs import Fate, Phase, Run, Runs, Verdict
from workers.supervisors import Supervisors

LOST = "the node has nothing of this run: its directory is gone"
_GAVE_UP = Verdict(
    Outcome.INTERNAL, "the node's agent ended between preparing the run and starting it"
)
_TAKEN_AWAY = Verdict(Outcome.FENCED, "the job was taken from this node")


class Recovery:
    """Brings this agent's runs, its directories and its rows together.

    Args:
        node_id, epoch: of the registration.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        runs: Runs,
        supervisors: Supervisors,
        clearing: finish.Clearing,
        *,
        node_id: int,
        epoch: int,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._runs = runs
        self._supervisors = supervisors
        self._clearing = clearing
        self._node_id = node_id
        self._epoch = epoch
        self._log = logs.get(__name__)
        self._began = clock.boottime()
        self._missing: set[UUID] = set()

    # -- directories that no run belongs to

    def take_over(self) -> list[Run]:
        """Decide about every directory that this agent does not know.

        Returns:
            Runs that are to be filled and started.
        """
        unknown = [
            (directory, dispatch_id)
            for directory in RunDir.all(self._settings.data_dir)
            if (dispatch_id := dispatch_of(directory)) is not None
            and self._runs.get(dispatch_id) is None
        ]
        if not unknown:
            return []
        rows = self._rows(job_id for d, _ in unknown if (job_id := job_of(d)) is not None)
        prepare = []
        for directory, dispatch_id in unknown:
            try:
                run = self._take_over(directory, dispatch_id, rows.get(dispatch_id))
            except (OSError, RunDirectoryError) as error:
                # it is looked at again; the others must not wait for it
                self._log.error("a run directory is unusable", error=str(error))
                continue
            if run is not None:
                prepare.append(run)
        return prepare

    def _take_over(self, directory: RunDir, dispatch_id: UUID, row: NodeJob | None) -> Run | None:
        job_id = row.job_id if row is not None else job_of(directory) or 0
        run = Run(job_id, dispatch_id, directory, Phase.CLAIMING)
        todo = decide(look(directory), row, dispatch_id, self._node_id)
        self._log.info("run directory found", todo=todo.name.lower(), **run.names)
        prepare = self.carry_out(run, todo)
        self._runs.add(run)
        return run if prepare else None

    def carry_out(self, run: Run, todo: Todo) -> bool:
        """Do what was decided; True for a run that is to be filled."""
        if todo is Todo.PREPARE:
            run.enter(Phase.PREPARING)
            return True
        if todo is Todo.ADOPT:
            self._supervisors.adopt(run)
        elif todo is Todo.GIVE_UP:
            self.end_unstarted(run, _GAVE_UP)
        elif todo is Todo.END:
            self._end(run, Fate.FINISH)
        else:
            self._end(run, Fate.KEEP if todo is Todo.KEEP else Fate.DROP)
        return False

    def end_unstarted(self, run: Run, verdict: Verdict) -> None:
        """End a run that has no supervisor, by winning its start; adopt it if that is lost."""
        if run.directory.take_start():
            run.verdict = verdict
            self._end(run, Fate.FINISH)
        else:
            self._supervisors.adopt(run)

    def _end(self, run: Run, fate: Fate) -> None:
        run.fate = fate
        if run.directory.is_alive():
            if run.phase is not Phase.STARTED:
                self._supervisors.adopt(run)
            self._supervisors.request_stop(run, "fenced")
            self._supervisors.kill(run, _TAKEN_AWAY)
        elif run.phase is Phase.ENDED:
            run.final_at = clock.boottime()
            run.enter(Phase.FINAL)  # it is cleared away already
        elif run.enter(Phase.ENDING):
            self._clearing.submit(run)

    def _rows(self, job_ids: Iterable[int]) -> dict[UUID, NodeJob]:
        with transaction(self._engine) as connection:
            uptime = clock.boottime()
            rows = node_rows.active_jobs(connection, self._node_id, uptime=uptime)
            rows += node_rows.jobs_by_id(connection, sorted(set(job_ids)), uptime=uptime)
        return {row.dispatch_id: row for row in rows if row.dispatch_id is not None}

    # -- runs against rows

    def compare(
        self, rows: Sequence[NodeJob], before: Sequence[tuple[Run, Phase]], *, suspicious: bool
    ) -> Compared:
        """Bring rows and runs together.

        Args:
            rows: the node's active rows.
            before: the runs and their phases as they were before the rows were read.
            suspicious: somebody was refused a write: act at the first look.
        """
        running = {
            row.dispatch_id: row
            for row in rows
            if row.status is Status.RUNNING and row.dispatch_id is not None
        }
        phases = {run.dispatch_id: phase for run, phase in before}
        compared = Compared([], [], [])
        for dispatch_id, row in running.items():
            run = self._runs.get(dispatch_id)
            if run is None:
                compared.lost.append(row)
            elif run.phase is Phase.CLAIMING and run.enter(Phase.PREPARING):
                compared.prepare.append(run)  # the claim's commit had an unknown end
            elif phases.get(run.dispatch_id) is Phase.FINAL:
                self._log.warning("a commit was lost: the run is ended again", **run.names)
                run.reopen()
                compared.again.append(run)
            elif row.cancel_requested and run.phase is Phase.STARTED:
                self._supervisors.request_stop(run, "cancel")
        self._settle_missing(running, rows, before, suspicious)
        return compared

    def _settle_missing(
        self,
        running: dict[UUID, NodeJob],
        rows: Sequence[NodeJob],
        before: Sequence[tuple[Run, Phase]],
        suspicious: bool,
    ) -> None:
        """Runs whose row is not running: seen twice, because the shipper may be about to say so."""
        waiting = {row.dispatch_id for row in rows} - set(running)
        missing = [
            run
            for run, phase in before
            if phase < Phase.FINAL
            and run.phase < Phase.FINAL
            and run.fate is Fate.FINISH
            and run.dispatch_id not in running
            and not (run.phase is Phase.CLAIMING and run.dispatch_id in waiting)
        ]
        certain = [r for r in missing if suspicious or r.dispatch_id in self._missing]
        self._missing = {run.dispatch_id for run in missing} - {r.dispatch_id for r in certain}
        if not certain:
            return
        found = self._rows(run.job_id for run in certain)
        for run in certain:
            row = found.get(run.dispatch_id)
            if row is not None and row.runs(run.dispatch_id, self._node_id):
                continue
            final = row is not None and row.status in FINAL
            self._log.warning("the job was taken from this node", final=final, **run.names)
            self._end(run, Fate.KEEP if final else Fate.DROP)

    # -- rows without a directory

    def finish_lost(self, rows: Sequence[NodeJob]) -> Owed:
        """End running rows of which this node has nothing.

        At once when they were claimed under this epoch or before this boot; else only when an
        agent elsewhere that may still hold them is fenced for certain.
        """
        waited = clock.boottime() - self._began > self._settings.node_lost_after
        lost = [r for r in rows if waited or r.before_boot or r.node_epoch == self._epoch]
        if not lost:
            return Owed()
        with transaction(self._engine) as connection:
            done = [
                job_moves.finish(
                    connection,
                    row.job_id,
                    dispatch_id=row.dispatch_id,
                    outcome=Outcome.NODE_LOST,
                    explanation=LOST,
                    events_complete=False,
                )
                for row in lost
            ]
            finished = finish.after_final(connection, [job for job in done if job is not None])
        for job in finished.jobs:
            self._log.error("a run is lost", job_id=job.job_id, retry=job.retry_id)
        finish.count_final(finished)
        return finished.owed

    def remove_old(self) -> None:
        """Remove directories of runs that have been final long enough, and those to be dropped."""
        now = clock.boottime()
        for run in self._runs.at(Phase.FINAL):
            kept = now - run.final_at < self._settings.keep_run_directory
            if run.fate is Fate.DROP or not kept:
                try:
                    run.directory.remove()
                except OSError as error:
                    self._log.error("a run directory stays", error=str(error), **run.names)
                    run.final_at = now
                    continue
                self._runs.forget(run)


@dataclass(frozen=True)
class Compared:
    """What a comparison leaves to its caller.

    Attributes:
        lost: running rows without a directory.
        prepare: runs to be filled and started.
        again: runs whose final status is written again.
    """

    lost: list[NodeJob]
    prepare: list[Run]
    again: list[Run]
