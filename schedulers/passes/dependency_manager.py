"""The DependencyManager: which updates a new job must wait for (docs/scheduling.md 2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from dispatcher.broker.messages import Manager, wake
from dispatcher.db import quarantine
from dispatcher.db.row_locks import lock_free_jobs
from dispatcher.domain.status import Kind
from dispatcher.settings import Settings
from schedulers.core.decision import LinkDependencies, Strike
from schedulers.core.plan_dependencies import plan_dependencies
from schedulers.core.snapshot import UnprocessedJob, UpdateWorld
from schedulers.passes import apply
from schedulers.passes.backlog import Backlog, Cursors, Window
from schedulers.passes.launch_needed import launch_needed
from schedulers.passes.manager_pass import Applied, Ended, Pass
from schedulers.passes.read_updates import read_updates
from schedulers.passes.windows import walk

_UNPROCESSED = """
    SELECT id, kind, project_id, scm_branch, inventory_id, inventory_source_id
    FROM job LEFT JOIN job_project ON job_id = id
    WHERE status = 'pending' AND NOT dependencies_processed
      AND (quarantined_until IS NULL OR quarantined_until <= dispatcher_now())
"""


def run(under_way: Pass) -> Ended:
    """One pass over the jobs whose dependencies are not known yet."""
    unprocessed: Backlog[UnprocessedJob, LinkDependencies] = Unprocessed(under_way.settings)
    return walk(under_way, unprocessed)


class Unprocessed:
    """Pending jobs whose dependencies are not known yet, in order of id."""

    def __init__(self, settings: Settings) -> None:
        self.stopped_early = False
        self._settings = settings
        self._world = UpdateWorld()

    def has_more(self, connection: Connection) -> bool:
        """Nothing beside the change counter and the clock."""
        return False

    def load(self, connection: Connection) -> None:
        """Nothing: what jobs may depend on is read with each window, so that a window shares what
        the one before it has launched."""

    def read(self, connection: Connection, cursors: Cursors, size: int) -> Window[UnprocessedJob]:
        """The next jobs behind the last one that was read."""
        rows = connection.execute(
            text(f"{_UNPROCESSED} AND id > :behind ORDER BY id LIMIT :size"),
            {"behind": cursors.get("id", 0), "size": size},
        ).all()
        jobs = _jobs(rows)
        self._world = read_updates(connection, jobs)
        return Window(jobs, {"id": rows[-1].id} if len(rows) == size else {})

    def named(self, connection: Connection, ids: Collection[int]) -> Sequence[UnprocessedJob]:
        """Those of the given jobs that are still unprocessed."""
        rows = connection.execute(
            text(f"{_UNPROCESSED} AND id = ANY(CAST(:ids AS bigint[])) ORDER BY id"),
            {"ids": list(ids)},
        )
        jobs = _jobs(rows.all())
        self._world = read_updates(connection, jobs)
        return jobs

    def id_of(self, item: UnprocessedJob) -> int:
        """A job's id."""
        return item.id

    def decided_about(self, decision: LinkDependencies) -> int:
        """The job's id."""
        return decision.job_id

    def plan(self, items: Sequence[UnprocessedJob]) -> Sequence[LinkDependencies | Strike]:
        """Each job's own dependencies."""
        return plan_dependencies(items, self._world)

    def apply(self, connection: Connection, decisions: Sequence[LinkDependencies]) -> Applied:
        """Link a window's jobs, and give them to the TaskManager.

        A dependency is linked only while it can still be waited for; a job that lost one that way
        stays unprocessed, without any link, and is decided about again (docs/protocols.md 6.6).
        """
        free = lock_free_jobs(connection, [d.job_id for d in decisions])
        ours = [d for d in decisions if d.job_id in free]
        made = launch_needed(connection, ours)
        wanted = [(d.job_id, other) for d in ours for other in d.depends_on]
        # a thing that was deleted meanwhile is not waited for: the job says itself what it lacks
        wanted += [(d.job_id, made[u]) for d in ours for u in d.updates if u in made]
        linked = _link(connection, wanted)
        incomplete = {job_id for job_id, other in wanted if (job_id, other) not in linked}
        _unlink(connection, incomplete)
        done = _mark(connection, [d.job_id for d in ours if d.job_id not in incomplete])
        owed = wake(Manager.TASK) if done else wake()
        skipped = len(decisions) - len(ours) + len(incomplete)
        return Applied(owed, {"link": done}, changed=done > 0, skipped=skipped)

    def strike(self, connection: Connection, strikes: Sequence[Strike]) -> Applied:
        """Set aside jobs whose handling raised."""
        return apply.strike_jobs(
            connection, strikes, max_strikes=self._settings.max_strikes, manager=Manager.DEPENDENCY
        )

    def next_due(self, connection: Connection) -> datetime | None:
        """The end of the next quarantine."""
        return quarantine.next_release(connection)


def _jobs(rows: Sequence[Any]) -> list[UnprocessedJob]:
    return [
        UnprocessedJob(
            id=row.id,
            kind=Kind(row.kind),
            project_id=row.project_id,
            branch=row.scm_branch or "",
            inventory_id=row.inventory_id,
            source_id=row.inventory_source_id,
        )
        for row in rows
    ]


def _unlink(connection: Connection, job_ids: Collection[int]) -> None:
    if job_ids:
        connection.execute(
            text("DELETE FROM job_dependency WHERE job_id = ANY(CAST(:jobs AS bigint[]))"),
            {"jobs": list(job_ids)},
        )


def _link(connection: Connection, wanted: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    if not wanted:
        return set()
    rows = connection.execute(
        text(
            "INSERT INTO job_dependency (job_id, depends_on_id)"
            " SELECT v.job_id, v.other FROM unnest(CAST(:jobs AS bigint[]),"
            " CAST(:others AS bigint[])) AS v(job_id, other) JOIN job ON job.id = v.other"
            " WHERE job.status IN ('pending', 'waiting', 'running', 'successful')"
            " ON CONFLICT (job_id, depends_on_id) DO UPDATE SET job_id = excluded.job_id"
            " RETURNING job_id, depends_on_id"
        ),
        {"jobs": [j for j, _ in wanted], "others": [o for _, o in wanted]},
    )
    return {(job_id, other) for job_id, other in rows}


def _mark(connection: Connection, job_ids: Sequence[int]) -> int:
    if not job_ids:
        return 0
    return connection.execute(
        text(
            "UPDATE job SET dependencies_processed = true"
            " WHERE id = ANY(CAST(:jobs AS bigint[])) AND status = 'pending'"
            " AND NOT dependencies_processed"
        ),
        {"jobs": list(job_ids)},
    ).rowcount
