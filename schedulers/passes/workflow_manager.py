"""The WorkflowManager: what moves in running workflow jobs (docs/scheduling.md 4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, text

from dispatcher import logs
from dispatcher.broker.messages import Manager
from dispatcher.db import quarantine
from dispatcher.domain.status import Status
from dispatcher.metrics import WORKFLOWS_MISSED
from dispatcher.settings import Settings
from schedulers.core.decision import CancelChild, FinishWorkflow, SkipNode, Strike, WorkflowDecision
from schedulers.core.plan_workflows import plan_workflows
from schedulers.core.snapshot import ChildJob, WorkflowJob, WorkflowNode
from schedulers.passes import apply_workflows
from schedulers.passes.backlog import Backlog, Cursors, Window
from schedulers.passes.manager_pass import Applied, Ended, Pass
from schedulers.passes.windows import walk

log = logs.get(__name__)

#: How often every running workflow is looked at, touched or not. What that finds was missed.
SWEEP_EVERY: Final = timedelta(minutes=10)


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
    touched: Backlog[Touched, Evaluated] = Workflows(under_way.settings, under_way.lease.next_due)
    return walk(under_way, touched)


class Workflows:
    """Touched workflows in order of id; once in ten minutes every running one."""

    def __init__(self, settings: Settings, next_due: datetime | None) -> None:
        self.stopped_early = False
        self._settings = settings
        self._next_sweep = next_due
        self._sweeps = False

    def has_more(self, connection: Connection) -> bool:
        """Whether any workflow was touched."""
        return connection.execute(text(f"{_TOUCHED} LIMIT 1"), {"behind": 0}).first() is not None

    def load(self, connection: Connection) -> None:
        """Decide whether this pass looks at every running workflow."""
        now: datetime = connection.execute(text("SELECT dispatcher_now()")).scalar_one()
        self._sweeps = self._next_sweep is None or now >= self._next_sweep
        if self._sweeps:
            self._next_sweep = now + SWEEP_EVERY

    def read(self, connection: Connection, cursors: Cursors, size: int) -> Window[Touched]:
        """The next workflows behind the last one that was read."""
        query = _RUNNING if self._sweeps else _TOUCHED
        ids = list(
            connection.scalars(
                text(f"{query} ORDER BY 1 LIMIT :size"),
                {"behind": cursors.get("id", 0), "size": size},
            )
        )
        return Window(self.named(connection, ids), {"id": ids[-1]} if len(ids) == size else {})

    def named(self, connection: Connection, ids: Collection[int]) -> Sequence[Touched]:
        """The given workflows with their touches; those that do not run only lose their touches."""
        wanted = list(ids)
        running = {workflow.id: workflow for workflow in _read_workflows(connection, wanted)}
        touches = _read_touches(connection, wanted)
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
        applied = (
            apply_workflows.cancel_children(
                connection, [m for m in moves if isinstance(m, CancelChild)], locked
            )
            + apply_workflows.finish(
                connection, [m for m in moves if isinstance(m, FinishWorkflow)], locked
            )
            + apply_workflows.skip_nodes(
                connection, [m for m in moves if isinstance(m, SkipNode)], locked
            )
        )
        apply_workflows.delete_touches(connection, [t for e in decisions for t in e.touches])
        if self._sweeps:
            self._count_missed(decisions)
        return applied

    def strike(self, connection: Connection, strikes: Sequence[Strike]) -> Applied:
        """Set aside workflows whose handling raised; end those that had too many tries."""
        return apply_workflows.strike(connection, strikes, max_strikes=self._settings.max_strikes)

    def next_due(self, connection: Connection) -> datetime | None:
        """The next look at every workflow, or the end of a quarantine."""
        dues = (self._next_sweep, quarantine.next_release(connection, status=Status.RUNNING))
        return min((due for due in dues if due is not None), default=None)

    @staticmethod
    def _count_missed(decisions: Sequence[Evaluated]) -> None:
        missed = [e.workflow_id for e in decisions if e.decisions and not e.touches]
        if missed:
            WORKFLOWS_MISSED.inc(len(missed))
            log.error("workflows moved without a touch", manager=Manager.WORKFLOW, jobs=missed)


_TOUCHED = """
    SELECT DISTINCT workflow_job_id FROM workflow_touch JOIN job ON job.id = workflow_job_id
    WHERE workflow_job_id > :behind
      AND (quarantined_until IS NULL OR quarantined_until <= dispatcher_now())
"""
_RUNNING = """
    SELECT id FROM job WHERE status = 'running' AND kind = 'workflow' AND id > :behind
      AND (quarantined_until IS NULL OR quarantined_until <= dispatcher_now())
"""


def _read_touches(connection: Connection, ids: Sequence[int]) -> dict[int, list[int]]:
    rows = connection.execute(
        text(
            "SELECT workflow_job_id, array_agg(id) FROM workflow_touch"
            " WHERE workflow_job_id = ANY(CAST(:ids AS bigint[])) GROUP BY 1"
        ),
        {"ids": ids},
    )
    return dict(rows.all())


def _read_workflows(connection: Connection, ids: Sequence[int]) -> list[WorkflowJob]:
    nodes: dict[int, list[WorkflowNode]] = defaultdict(list)
    for row in connection.execute(
        text(
            "SELECT n.id, n.workflow_job_id, n.identifier, n.do_not_run, child.id AS child_id,"
            " child.status, child.cancel_requested"
            " FROM workflow_node n LEFT JOIN job child ON child.id = n.job_id"
            " WHERE n.workflow_job_id = ANY(CAST(:ids AS bigint[])) ORDER BY n.id"
        ),
        {"ids": ids},
    ):
        child = (
            None
            if row.child_id is None
            else ChildJob(row.child_id, Status(row.status), row.cancel_requested)
        )
        nodes[row.workflow_job_id].append(
            WorkflowNode(row.id, row.identifier, row.do_not_run, child)
        )
    return [
        WorkflowJob(row.id, row.cancel_requested, tuple(nodes.get(row.id, ())))
        for row in connection.execute(
            text(
                "SELECT id, cancel_requested FROM job WHERE id = ANY(CAST(:ids AS bigint[]))"
                " AND status = 'running' AND kind = 'workflow'"
            ),
            {"ids": ids},
        )
    ]
