"""The WorkflowManager: what moves in running workflow jobs (docs/scheduling.md, "Workflows")."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar

from sqlalchemy import Connection, text

from dispatcher import logs
from dispatcher.broker.messages import Manager
from dispatcher.db import quarantine
from dispatcher.domain.status import Status
from dispatcher.metrics import WORKFLOWS_MISSED
from dispatcher.settings import Settings
from schedulers.core.decision import (
    CancelChild,
    ExpireApproval,
    FailNode,
    FinishWorkflow,
    SkipNode,
    Spawn,
    Strike,
    WorkflowDecision,
)
from schedulers.core.plan_workflows import plan_workflows
from schedulers.core.snapshot import WorkflowJob
from schedulers.passes import apply_workflows, workflow_snapshots
from schedulers.passes.backlog import Backlog, Cursors, Window
from schedulers.passes.manager_pass import Applied, Ended, Pass
from schedulers.passes.spawn_nodes import spawn
from schedulers.passes.windows import walk

log = logs.get(__name__)

#: How often every running workflow is looked at, touched or not. What that finds was missed.
SWEEP_EVERY: Final = timedelta(minutes=10)
#: Workflows of a window at least. Spawning and ending many costs as many statements as one, and
#: jobs are started by another manager, so that small first windows would make nothing sooner.
SMALLEST_WINDOW: Final = 2_000

DecisionT = TypeVar("DecisionT")


@dataclass(frozen=True)
class Touched:
    """A workflow to evaluate, and the touches that this evaluation answers."""

    workflow: WorkflowJob | None
    workflow_id: int
    touches: tuple[int, ...]


@dataclass(frozen=True)
class Evaluated:
    """What was decided about one workflow."""

    workflow_id: int
    touches: tuple[int, ...]
    decisions: tuple[WorkflowDecision, ...]


def run(under_way: Pass) -> Ended:
    """One pass over the running workflows that something moved under."""
    touched: Backlog[Touched, Evaluated] = Workflows(under_way.settings)
    return walk(under_way, touched)


class Workflows:
    """Touched workflows in order of id; once in ten minutes every running one."""

    def __init__(self, settings: Settings) -> None:
        self.stopped_early = False
        self._settings = settings
        self._sweeps = False
        self._swept = False

    def has_more(self, connection: Connection) -> bool:
        """Whether any workflow was touched."""
        return bool(workflow_snapshots.touched_ids(connection, 0, 1))

    def load(self, connection: Connection) -> None:
        """Decide whether this pass looks at every running workflow."""
        due = text("SELECT coalesce(max(due) <= dispatcher_now(), true) FROM workflow_sweep")
        self._sweeps = bool(connection.scalar(due))

    def read(self, connection: Connection, cursors: Cursors, size: int) -> Window[Touched]:
        """The next workflows behind the last one that was read."""
        size = max(size, SMALLEST_WINDOW)
        read_ids = (
            workflow_snapshots.running_ids if self._sweeps else workflow_snapshots.touched_ids
        )
        ids = read_ids(connection, cursors.get("id", 0), size)
        self._swept = self._sweeps and len(ids) < size
        return Window(self.named(connection, ids), {"id": ids[-1]} if len(ids) == size else {})

    def named(self, connection: Connection, ids: Collection[int]) -> Sequence[Touched]:
        """The given workflows with their touches; those that do not run only lose their touches."""
        wanted = list(ids)
        if not wanted:
            return []
        running = workflow_snapshots.read_workflows(connection, wanted)
        touches = workflow_snapshots.read_touches(connection, wanted)
        return [Touched(running.get(i), i, tuple(touches.get(i, ()))) for i in wanted]

    def id_of(self, item: Touched) -> int:
        """The workflow job's id."""
        return item.workflow_id

    def decided_about(self, decision: Evaluated) -> int:
        """The workflow job's id."""
        return decision.workflow_id

    def plan(self, items: Sequence[Touched]) -> Sequence[Evaluated | Strike]:
        """Evaluate each workflow."""
        decisions: dict[int, list[WorkflowDecision]] = defaultdict(list)
        for decision in plan_workflows([i.workflow for i in items if i.workflow is not None]):
            decisions[decision.workflow_job_id].append(decision)
        return [
            Evaluated(item.workflow_id, item.touches, tuple(decisions.get(item.workflow_id, ())))
            for item in items
        ]

    def apply(self, connection: Connection, decisions: Sequence[Evaluated]) -> Applied:
        """Write the decisions, and delete exactly the touches that they answer."""
        moves = [move for evaluated in decisions for move in evaluated.decisions]
        locked = apply_workflows.lock(connection, [e.workflow_id for e in decisions if e.decisions])
        cancels = _only(CancelChild, moves)
        # a nested workflow of this window may be canceled by it: it spawns nothing any more
        going_on = locked.going_on - {cancel.job_id for cancel in cancels}
        applied = (
            apply_workflows.cancel_children(connection, cancels, locked.ids)
            + apply_workflows.expire(connection, _only(ExpireApproval, moves), locked.ids)
            + spawn(connection, _only(Spawn, moves), going_on)
            + apply_workflows.skip_nodes(connection, _only(SkipNode, moves), locked.ids)
            + apply_workflows.fail_nodes(connection, _only(FailNode, moves), locked.ids)
            + apply_workflows.finish(connection, _only(FinishWorkflow, moves), locked.ids)
        )
        apply_workflows.delete_touches(connection, [t for e in decisions for t in e.touches])
        if self._sweeps:
            self._count_missed(decisions)
        if self._swept:
            _note_sweep(connection)
        return applied

    def strike(self, connection: Connection, strikes: Sequence[Strike]) -> Applied:
        """Set aside workflows whose handling raised; end those that had too many tries."""
        return apply_workflows.strike(connection, strikes, max_strikes=self._settings.max_strikes)

    def next_due(self, connection: Connection) -> datetime | None:
        """The next look at every workflow, the next late approval, or the end of a quarantine."""
        dues = (
            connection.scalar(text("SELECT max(due) FROM workflow_sweep")),
            workflow_snapshots.next_expiry(connection),
            quarantine.next_release(connection, status=Status.RUNNING),
        )
        return min((due for due in dues if due is not None), default=None)

    @staticmethod
    def _count_missed(decisions: Sequence[Evaluated]) -> None:
        missed = [
            e.workflow_id
            for e in decisions
            # a late approval is found by the clock, not by a touch
            if not e.touches and any(not isinstance(d, ExpireApproval) for d in e.decisions)
        ]
        if missed:
            WORKFLOWS_MISSED.inc(len(missed))
            log.error("workflows moved without a touch", manager=Manager.WORKFLOW, jobs=missed)


def _only(kind: type[DecisionT], moves: Iterable[WorkflowDecision]) -> list[DecisionT]:
    return [move for move in moves if isinstance(move, kind)]


def _note_sweep(connection: Connection) -> None:
    connection.execute(
        text(
            "INSERT INTO workflow_sweep (id, due) VALUES (1, dispatcher_now() + :every)"
            " ON CONFLICT (id) DO UPDATE SET due = excluded.due"
        ),
        {"every": SWEEP_EVERY},
    )
