"""What unprocessed jobs may depend on: four statements for a window, whatever its size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, text

from dispatcher.domain.status import Kind, Status
from schedulers.core.snapshot import (
    ProjectRule,
    SourceRule,
    UnprocessedJob,
    Updates,
    UpdateWorld,
)

_FINISHED = """
    SELECT job.status, EXTRACT(epoch FROM dispatcher_now() - job.finished) AS age
"""


def read_updates(connection: Connection, jobs: Sequence[UnprocessedJob]) -> UpdateWorld:
    """Rules and updates of the projects and inventories of these jobs."""
    playbooks = [job for job in jobs if job.kind is Kind.PLAYBOOK]
    inventories = {j.inventory_id for j in playbooks if j.inventory_id is not None}
    sources = _sources(connection, inventories)
    keys = {(j.project_id, j.branch) for j in jobs if j.project_id is not None}
    keys |= {(s.project_id, s.branch) for s, _ in sources}
    sources_of: dict[int, list[int]] = defaultdict(list)
    for source, inventory_id in sources:
        sources_of[inventory_id].append(source.id)
    return UpdateWorld(
        projects=_projects(connection, {project_id for project_id, _ in keys}),
        sources={source.id: source for source, _ in sources},
        sources_of={inventory: tuple(ids) for inventory, ids in sources_of.items()},
        project_updates=_project_updates(connection, sorted(keys)),
        source_updates=_source_updates(connection, [source.id for source, _ in sources]),
    )


def _projects(connection: Connection, ids: Collection[int]) -> dict[int, ProjectRule]:
    if not ids:
        return {}
    rows = connection.execute(
        text(
            "SELECT id, update_on_launch, cache_timeout FROM project"
            " WHERE id = ANY(CAST(:ids AS bigint[]))"
        ),
        {"ids": list(ids)},
    )
    return {row.id: ProjectRule(row.update_on_launch, row.cache_timeout) for row in rows}


def _sources(connection: Connection, inventories: Collection[int]) -> list[tuple[SourceRule, int]]:
    """Sources that are updated on launch, with their inventories."""
    if not inventories:
        return []
    rows = connection.execute(
        text(
            """
            SELECT source.id, source.project_id, project.scm_branch, source.update_on_launch,
                source.cache_timeout, source.inventory_id
            FROM inventory_source source JOIN project ON project.id = source.project_id
            WHERE source.update_on_launch AND source.inventory_id = ANY(CAST(:ids AS bigint[]))
            ORDER BY source.id
            """
        ),
        {"ids": list(inventories)},
    )
    return [(SourceRule(*row[:5]), row.inventory_id) for row in rows]


def _project_updates(
    connection: Connection, keys: Sequence[tuple[int, str]]
) -> dict[tuple[int, str], Updates]:
    if not keys:
        return {}
    of_key = """
        FROM job JOIN job_project found ON found.job_id = job.id
        WHERE job.project_id = v.project_id AND job.kind = 'project_update'
          AND found.scm_branch = v.branch
    """
    rows = connection.execute(
        text(
            f"""
            SELECT v.project_id, v.branch, active.id AS active, last.status, last.age,
                EXISTS (SELECT {of_key} AND job.status = 'successful'
                    AND found.bundle_digest IS NOT NULL) AS ever
            FROM unnest(CAST(:projects AS bigint[]), CAST(:branches AS text[]))
                AS v(project_id, branch)
            LEFT JOIN LATERAL (SELECT job.id {of_key} AND job.finished IS NULL
                AND NOT job.cancel_requested ORDER BY job.id DESC LIMIT 1) active ON true
            LEFT JOIN LATERAL ({_FINISHED} {of_key} AND job.finished IS NOT NULL
                ORDER BY job.finished DESC LIMIT 1) last ON true
            """
        ),
        {"projects": [p for p, _ in keys], "branches": [b for _, b in keys]},
    )
    return {(row.project_id, row.branch): _updates(row, row.ever) for row in rows}


def _source_updates(connection: Connection, ids: Sequence[int]) -> dict[int, Updates]:
    if not ids:
        return {}
    of_source = """
        FROM job WHERE job.inventory_source_id = v.id AND job.kind = 'inventory_update'
    """
    rows = connection.execute(
        text(
            f"""
            SELECT v.id, active.id AS active, last.status, last.age
            FROM unnest(CAST(:ids AS bigint[])) AS v(id)
            LEFT JOIN LATERAL (SELECT job.id {of_source} AND job.finished IS NULL
                AND NOT job.cancel_requested ORDER BY job.id DESC LIMIT 1) active ON true
            LEFT JOIN LATERAL ({_FINISHED} {of_source} AND job.finished IS NOT NULL
                ORDER BY job.finished DESC LIMIT 1) last ON true
            """
        ),
        {"ids": list(ids)},
    )
    return {row.id: _updates(row, row.status == Status.SUCCESSFUL) for row in rows}


def _updates(row: Any, ever: bool) -> Updates:
    return Updates(
        active=row.active,
        last_status=None if row.status is None else Status(row.status),
        last_age=None if row.age is None else float(row.age),
        ever=ever,
    )
