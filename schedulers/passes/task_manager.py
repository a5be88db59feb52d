"""The TaskManager: which pending jobs start now, and where (docs/scheduling.md 3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection

from dispatcher.broker.messages import Manager
from dispatcher.db import quarantine, snapshots
from dispatcher.db.row_locks import lock_free_jobs
from dispatcher.settings import Settings
from schedulers.core.decision import Begin, Block, Fail, Hold, Reason, Start, Strike
from schedulers.core.fairness import own_order
from schedulers.core.plan_tasks import Ledger, plan_window
from schedulers.core.reasons import WITHOUT_TURN, cause
from schedulers.core.snapshot import PendingJob
from schedulers.passes import apply
from schedulers.passes.backlog import Backlog, Cursors, Window
from schedulers.passes.manager_pass import Applied, Ended, Pass
from schedulers.passes.windows import walk

Decision = Start | Begin | Block | Hold | Fail


def run(under_way: Pass) -> Ended:
    """One pass over the pending jobs."""
    candidates: Backlog[PendingJob, Decision] = Candidates(under_way.settings)
    return walk(under_way, candidates)


class Candidates:
    """Pending jobs whose dependencies are processed; the ledger is carried through the pass."""

    def __init__(self, settings: Settings) -> None:
        self.stopped_early = False
        self._settings = settings
        self._ledger: Ledger | None = None
        self._reasons: dict[int, Reason] = {}
        self._held: set[int] = set()
        self._now: datetime | None = None
        self._due: float | None = None

    def has_more(self, connection: Connection) -> bool:
        """Nothing beside the change counter and the clock."""
        return False

    def load(self, connection: Connection) -> None:
        """Read nodes, groups and active jobs, once in a pass (docs/protocols.md 7.4)."""
        world = snapshots.read_world(
            connection,
            reserve_after=self._settings.reserve_after,
            lock_cooldown=self._settings.lock_cooldown,
        )
        self._now = world.now
        self._ledger = Ledger.of(world)
        self._fall_due(ended.until for ended in world.cooling)

    def read(self, connection: Connection, cursors: Cursors, size: int) -> Window[PendingJob]:
        """The next candidates by keyset; see :func:`snapshots.read_candidates`."""
        jobs, self._reasons, more = snapshots.read_candidates(connection, cursors, size)
        last: dict[str, tuple[float, int]] = {}
        for job in jobs:
            tenant, place = str(job.organization_id), own_order(job)
            last[tenant] = max(place, last.get(tenant, place))
        behind = {**cursors, **{tenant: list(place) for tenant, place in last.items()}}
        return Window(jobs, behind if more else {})

    def named(self, connection: Connection, ids: Collection[int]) -> Sequence[PendingJob]:
        """Those of the given jobs that are still candidates."""
        jobs, self._reasons = snapshots.read_named_candidates(connection, ids)
        return jobs

    def id_of(self, item: PendingJob) -> int:
        """A job's id."""
        return item.id

    def decided_about(self, decision: Decision) -> int:
        """The job's id."""
        return decision.job_id

    def plan(self, items: Sequence[PendingJob]) -> Sequence[Decision | Strike]:
        """Decide about each job of a window; the ledger goes on only when all were decided."""
        assert self._ledger is not None, "load comes first"
        decisions, self._ledger = plan_window(self._ledger, items, self._settings.start_limit)
        self.stopped_early = self._ledger.stopped_early
        self._note_held(items, decisions)
        return decisions

    def apply(self, connection: Connection, decisions: Sequence[Decision]) -> Applied:
        """Write a window's decisions; lock order: job, workflow, change counter."""
        assert self._now is not None, "load comes first"
        reasons = self._changed_reasons(decisions)
        moves = [d for d in decisions if d.job_id in reasons or not isinstance(d, Block | Hold)]
        free = lock_free_jobs(connection, [d.job_id for d in moves])
        ours = [d for d in moves if d.job_id in free]
        return (
            apply.start_jobs(connection, [d for d in ours if isinstance(d, Start)])
            + apply.begin_jobs(connection, [d for d in ours if isinstance(d, Begin)])
            + apply.fail_jobs(connection, [d for d in ours if isinstance(d, Fail)])
            + apply.store_reasons(
                connection, {i: r for i, r in reasons.items() if i in free}, now=self._now
            )
            + Applied(skipped=len(moves) - len(ours))
        )

    def strike(self, connection: Connection, strikes: Sequence[Strike]) -> Applied:
        """Set aside jobs whose handling raised."""
        return apply.strike_jobs(
            connection, strikes, max_strikes=self._settings.max_strikes, manager=Manager.TASK
        )

    def next_due(self, connection: Connection) -> datetime | None:
        """The end of the next quarantine or cool-down, or the time at which a held job is no longer
        overtaken.
        """
        dues = [quarantine.next_release(connection)]
        if self._due is not None:
            dues.append(datetime.fromtimestamp(self._due, UTC))
        return min((due for due in dues if due is not None), default=None)

    def _changed_reasons(self, decisions: Sequence[Decision]) -> dict[int, Reason]:
        """Reasons whose cause is not the stored one; numbers alone are not worth a write.

        And reasons of jobs that are held for the first time, because that is stored with them.
        """
        return {
            d.job_id: d.reason
            for d in decisions
            if isinstance(d, Block | Hold)
            and (
                d.job_id not in self._reasons
                or cause(self._reasons[d.job_id]) != cause(d.reason)
                or (d.job_id not in self._held and d.reason.code not in WITHOUT_TURN)
            )
        }

    def _note_held(
        self, items: Sequence[PendingJob], decisions: Sequence[Decision | Strike]
    ) -> None:
        """Which jobs of the window were held before, and when those held now have waited long."""
        assert self._now is not None, "load comes first"
        now = self._now.timestamp()
        since = {job.id: job.held_since for job in items}
        self._held = {job_id for job_id, held in since.items() if held is not None}
        self._fall_due(
            (since[d.job_id] or now) + self._settings.reserve_after
            for d in decisions
            if isinstance(d, Hold) and d.reason.code not in WITHOUT_TURN
        )

    def _fall_due(self, moments: Iterable[float]) -> None:
        """Something depends on the clock at these times; those that are past were looked at."""
        assert self._now is not None, "load comes first"
        now = self._now.timestamp()
        future = [moment for moment in moments if moment > now]
        if future:
            self._due = min([*future, *([] if self._due is None else [self._due])])
