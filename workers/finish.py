"""The end of a run: what is left is cleared away first, the final status is written last.

Invariant: when a job is final, none of its processes is alive, its secrets are gone from disk, and
its events, host summaries and artifacts are stored (docs/protocols.md 5.3, 6.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from dispatcher import clock, logs
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import event_store, job_moves
from dispatcher.db.change import raise_counter
from dispatcher.db.workflow_touches import touch_workflows_of
from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import Status
from dispatcher.errors import RunDirectoryError, Unavailable
from dispatcher.metrics import JOBS_FINISHED, KILLED_PROCESSES, RECOVERED
from workers import leftovers
from workers.outcome import Evidence, decide
from workers.run_dir import Result
from workers.runs import Fate, Phase, Run, Runs, Verdict
from workers.supervisors import verdict_of_stop

_RETRY_SECONDS: Final = 2.0
_NO_RESULT: Final = (
    "the run's supervisor ended without a result (it was killed, or the machine ran out of memory)"
)


@dataclass(frozen=True)
class Ending:
    """Everything that the final transaction of a run writes.

    Attributes:
        outcome, explanation: what was reached; a requested cancel wins over it in the database.
        playbook_outcome: what the playbook itself reached, for a job that ends canceled.
        total: events that the supervisor spooled; None: nobody counted them.
        complete: none of them is missing.
        update: revision and content that a project update found.
    """

    outcome: Outcome
    explanation: str
    playbook_outcome: Outcome | None = None
    host_rows: Sequence[Mapping[str, Any]] = ()
    artifacts: Mapping[str, Any] | None = None
    evidence: Mapping[str, Any] | None = None
    total: int | None = None
    complete: bool = True
    update: Mapping[str, Any] = field(default_factory=dict)


def clear_away(run: Run) -> None:
    """See to it that no process and no secret of a run is left.

    Raises:
        OSError, RunDirectoryError: something cannot be removed yet.
    """
    result = _result_of(run)
    if result is None:
        KILLED_PROCESSES.inc(leftovers.clear(run.directory.dispatch_id))
    elif run.fate is Fate.FINISH:
        KILLED_PROCESSES.inc(result.evidence.killed)
    try:
        run.directory.wipe_secrets()
    except RunDirectoryError:
        # what cannot be read cannot be stripped of its secrets either
        (run.directory.path / "job.json").unlink(missing_ok=True)
        run.directory.wipe_secrets()


def _result_of(run: Run) -> Result | None:
    """The supervisor's result; one that cannot be read is none, and says so in the verdict."""
    try:
        return run.directory.read_result()
    except RunDirectoryError as error:
        run.verdict = run.verdict or Verdict(
            Outcome.INTERNAL, f"the run's result cannot be read: {error}"
        )
        return None


class Clearing:
    """Clears runs away that have no supervisor any more, in the threads that prepare others.

    Args:
        on_cleared: called after each; the shipper may go on.
        deliver: stores what an update found, before its files are removed; its errors mean: later.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        runs: Runs,
        on_cleared: Callable[[], None],
        deliver: Callable[[Run, Result], None] | None = None,
    ) -> None:
        self._pool = pool
        self._runs = runs
        self._on_cleared = on_cleared
        self._deliver = deliver
        self._log = logs.get(__name__)

    def submit(self, run: Run) -> None:
        """Bring a run from ENDING to ENDED soon."""
        self._pool.submit(self._clear, run)

    def retry(self) -> None:
        """Try those again that failed a while ago."""
        for run in self._runs.at(Phase.ENDING):
            if run.clear_at and clock.monotonic() >= run.clear_at:
                run.clear_at = 0.0
                self.submit(run)

    def _clear(self, run: Run) -> None:
        try:
            result = _result_of(run)
            if self._deliver is not None and result is not None and run.fate is Fate.FINISH:
                self._deliver(run, result)
            clear_away(run)
        except (OSError, RunDirectoryError, SQLAlchemyError, Unavailable) as error:
            self._log.error(
                "a run could not be cleared away", error=logs.in_short(error), **run.names
            )
            run.clear_at = clock.monotonic() + _RETRY_SECONDS
            return
        if run.fate is Fate.FINISH:
            run.enter(Phase.ENDED)
        else:
            run.final_at = clock.boottime()
            run.enter(Phase.FINAL)
        self._runs.moved()
        self._on_cleared()


def ending_of(run: Run) -> Ending:
    """How a run ends, from its result, or from what the agent knows when there is none."""
    result = _result_of(run)
    if run.verdict is not None:
        # a result that is there but cannot be read: nobody knows how many events there were
        unread = result is None and (run.directory.path / "result.json").exists()
        return Ending(run.verdict.outcome, run.verdict.explanation, complete=not unread)
    if result is None:
        verdict = verdict_of_stop(run) or Verdict(Outcome.INTERNAL, _NO_RESULT)
        return Ending(verdict.outcome, verdict.explanation)
    return _ending_of_result(result)


def _ending_of_result(result: Result) -> Ending:
    decided = decide(result.evidence, result.tolerances)
    return Ending(
        outcome=decided.outcome,
        explanation=decided.explanation,
        playbook_outcome=decided.playbook_outcome if result.evidence.stop else decided.outcome,
        host_rows=[asdict(row) for row in decided.host_rows],
        artifacts=result.artifacts,
        evidence=_kept_evidence(result.evidence),
        total=result.events_total,
        update=result.update,
    )


def _kept_evidence(evidence: Evidence) -> dict[str, Any]:
    """The evidence without the recap, which is stored host by host."""
    kept = asdict(evidence)
    kept["stats"] = None if evidence.stats is None else sorted(evidence.stats)
    return kept


def checked(ending: Ending, stored: int) -> Ending:
    """An ending against what is stored once the last batch is in: no success with events missing."""
    if ending.total is None or ending.total == stored:
        return ending
    return replace(
        ending,
        complete=False,
        outcome=Outcome.INTERNAL,
        explanation=f"the run's spool is damaged: {stored} of {ending.total} events are stored",
    )


@dataclass(frozen=True)
class Finished:
    """What :func:`write_final` wrote, and what is owed for it after the commit."""

    jobs: tuple[job_moves.Finished, ...]
    owed: Owed


def write_final(
    connection: Connection, endings: Sequence[tuple[Run, Ending, int]], *, bare: bool = False
) -> Finished:
    """Write final statuses, in the transaction that stores the runs' last events.

    Args:
        endings: run, how it ends, its number of events.
        bare: without summaries and artifacts, because they cannot be stored.
    """
    done = []
    for run, ending, total in endings:
        written = job_moves.finish(
            connection,
            run.job_id,
            dispatch_id=run.dispatch_id,
            outcome=ending.outcome,
            explanation=ending.explanation,
            events_complete=ending.complete and not bare,
        )
        if written is None:
            continue  # its row was locked as running: cannot be
        done.append(written)
        canceled = written.status is Status.CANCELED
        if written.status is Status.SUCCESSFUL and "bundle_digest" in ending.update:
            event_store.store_revision(
                connection,
                run.job_id,
                revision=ending.update["revision"],
                digest=ending.update["bundle_digest"],
            )
        event_store.store_summaries(connection, run.job_id, () if bare else ending.host_rows)
        event_store.store_result(
            connection,
            run.job_id,
            artifacts={} if bare else ending.artifacts or {},
            evidence={} if bare else ending.evidence or {},
            events_total=total,
            playbook_outcome=ending.playbook_outcome if canceled else None,
        )
    return after_final(connection, done)


def after_final(connection: Connection, done: Sequence[job_moves.Finished]) -> Finished:
    """What belongs to the end of jobs besides their rows; the last statements of a transaction."""
    if not done:
        return Finished((), Owed())
    touched = touch_workflows_of(connection, [job.in_workflow for job in done])
    raise_counter(connection)
    owed = wake(Manager.TASK, *((Manager.WORKFLOW,) if touched else ()))
    return Finished(tuple(done), owed)


def count_final(finished: Finished) -> None:
    """Count final statuses, once they are committed."""
    for job in finished.jobs:
        JOBS_FINISHED.labels(str(job.outcome)).inc()
        if job.retry_id is not None:
            RECOVERED.labels("retried").inc()
