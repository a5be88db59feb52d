"""Recovery: silent nodes, and what becomes of the jobs that they hold (docs/scheduling.md 5).

First the states of nodes are written, each conditional on the renewal counter that was observed;
only then are the rows of nodes read, because a claim looks at that state (docs/protocols.md 3.1).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, text

from dispatcher.settings import Settings
from schedulers.core.decision import (
    FinishLost,
    RecoveryDecision,
    Resubmit,
    Return,
    Strike,
)
from schedulers.core.plan_recovery import observe_nodes, plan_recovery
from schedulers.core.recovery_snapshot import (
    NodeObservation,
    Observations,
    RecoverySnapshot,
    RunningRow,
    WaitingRow,
)
from schedulers.passes import apply_recovery
from schedulers.passes.backlog import Backlog, Cursors, Window
from schedulers.passes.housekeeping import Housekeeping
from schedulers.passes.manager_pass import Applied, Ended, Pass
from schedulers.passes.windows import walk

HeldRow = WaitingRow | RunningRow


class Recovery:
    """The work of recovery.

    Args:
        engine: for housekeeping, whose statements need other time-outs than a pass.
    """

    def __init__(self, engine: Engine) -> None:
        self._housekeeping = Housekeeping(engine)

    def run(self, under_way: Pass) -> Ended:
        """One pass: nodes, then the rows they hold, then housekeeping when it is due."""
        with under_way.snapshot() as connection:
            observations = read_observations(connection, under_way.settings)
        with under_way.timed("plan"):
            decisions = observe_nodes(observations)
        if decisions:
            under_way.apply(
                lambda connection: apply_recovery.watch_nodes(
                    connection, decisions, now=observations.now
                )
            )
        rows: Backlog[HeldRow, RecoveryDecision] = HeldRows(under_way.settings)
        ended = walk(under_way, rows)
        self._housekeeping.run(under_way.settings)
        return ended


class HeldRows:
    """Jobs that wait on a node, and those that run on a lost one, in order of id."""

    def __init__(self, settings: Settings) -> None:
        self.stopped_early = False
        self._settings = settings
        self._now: datetime | None = None

    def has_more(self, connection: Connection) -> bool:
        """Everything here looks at the clock: no pass is fruitless."""
        return True

    def load(self, connection: Connection) -> None:
        """The time of this pass."""
        self._now = connection.execute(text("SELECT dispatcher_now()")).scalar_one()

    def read(self, connection: Connection, cursors: Cursors, size: int) -> Window[HeldRow]:
        """The next rows behind the last one that was read."""
        rows = connection.execute(
            text(f"{_HELD} AND job.id > :behind ORDER BY job.id LIMIT :size"),
            {"behind": cursors.get("id", 0), "size": size},
        ).all()
        return Window(_held(rows), {"id": rows[-1].id} if len(rows) == size else {})

    def named(self, connection: Connection, ids: Collection[int]) -> Sequence[HeldRow]:
        """Those of the given jobs that are still held."""
        rows = connection.execute(
            text(f"{_HELD} AND job.id = ANY(CAST(:ids AS bigint[])) ORDER BY job.id"),
            {"ids": list(ids)},
        )
        return _held(rows.all())

    def id_of(self, item: HeldRow) -> int:
        """A job's id."""
        return item.job_id

    def decided_about(self, decision: RecoveryDecision) -> int:
        """The job's id."""
        return decision.job_id

    def plan(self, items: Sequence[HeldRow]) -> Sequence[RecoveryDecision | Strike]:
        """Decide about each row."""
        assert self._now is not None, "load comes first"
        return plan_recovery(
            RecoverySnapshot(
                now=self._now,
                submission_grace=self._settings.submission_grace,
                waiting_limit=self._settings.waiting_limit,
                waiting=tuple(row for row in items if isinstance(row, WaitingRow)),
                running=tuple(row for row in items if isinstance(row, RunningRow)),
            )
        )

    def apply(self, connection: Connection, decisions: Sequence[RecoveryDecision]) -> Applied:
        """Write a window's decisions."""
        return (
            apply_recovery.resubmit(connection, [d for d in decisions if isinstance(d, Resubmit)])
            + apply_recovery.give_back(connection, [d for d in decisions if isinstance(d, Return)])
            + apply_recovery.finish_lost(
                connection, [d for d in decisions if isinstance(d, FinishLost)]
            )
        )

    def strike(self, connection: Connection, strikes: Sequence[Strike]) -> Applied:
        """The frame has written it to the log; a job on a node cannot be set aside."""
        return Applied(counts={"strike": len(strikes)})

    def next_due(self, connection: Connection) -> datetime | None:
        """Not used: no pass is fruitless."""
        return None


_HELD = """
    SELECT job.id, job.status, job.dispatch_id, node.name, node_lease.state,
           node.removed IS NOT NULL AS removed, job.waiting_since, job.submitted_at,
           job.submissions, job.queued_on_node,
           CASE WHEN node.draining THEN 'draining' WHEN NOT node.enabled THEN 'disabled' ELSE '' END
               AS shut
    FROM job JOIN node ON node.id = job.node_id JOIN node_lease ON node_lease.node_id = node.id
    WHERE (job.status = 'waiting' OR (job.status = 'running' AND node_lease.state = 'lost'))
"""


def _held(rows: Sequence[Any]) -> list[HeldRow]:
    return [
        WaitingRow(
            job_id=row.id,
            dispatch_id=row.dispatch_id,
            node_name=row.name,
            node_state=row.state,
            node_removed=row.removed,
            waiting_since=row.waiting_since,
            submitted_at=row.submitted_at or row.waiting_since,
            submissions=row.submissions,
            queued_on_node=row.queued_on_node,
            node_shut=row.shut,
        )
        if row.status == "waiting"
        else RunningRow(row.id, row.dispatch_id, row.name, row.state)
        for row in rows
    ]


def read_observations(connection: Connection, settings: Settings) -> Observations:
    """Every present node's lease beside what recovery remembers of it."""
    now: datetime = connection.execute(text("SELECT dispatcher_now()")).scalar_one()
    rows = connection.execute(
        text(
            "SELECT node_lease.node_id, state, node_lease.seq, node_watch.seq AS watched_seq,"
            " coalesce(missed, 0) AS missed, ticked_at, (SELECT count(*) FROM job"
            "  WHERE job.node_id = node.id AND status = 'running') AS running"
            " FROM node JOIN node_lease ON node_lease.node_id = node.id"
            " LEFT JOIN node_watch ON node_watch.node_id = node.id WHERE removed IS NULL"
            " ORDER BY node.id"
        )
    )
    return Observations(
        now=now,
        heartbeat=settings.heartbeat,
        node_lost_after=settings.node_lost_after,
        nodes=tuple(
            NodeObservation(
                node_id=row.node_id,
                state=row.state,
                seq=row.seq,
                watched_seq=row.watched_seq,
                missed=row.missed,
                ticked_at=row.ticked_at,
                running_jobs=row.running,
            )
            for row in rows
        ),
    )
