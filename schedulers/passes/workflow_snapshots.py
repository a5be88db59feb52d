"""What the WorkflowManager plans on: workflows with their graphs, in a fixed number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, text

from dispatcher.domain.status import Status
from schedulers.core.snapshot import ChildJob, WorkflowJob, WorkflowNode

#: Approvals whose time is over, by workflow. Few approvals are pending, many were decided.
_DUE = """
    SELECT n.workflow_job_id FROM job AS pending
    JOIN approval AS late ON late.job_id = pending.id
    JOIN workflow_node AS n ON n.job_id = pending.id
    WHERE pending.status = 'pending' AND pending.kind = 'approval'
      AND late.expires <= dispatcher_now()
"""
_STATUSES = {str(status): status for status in Status}
_ASIDE = "(quarantined_until IS NULL OR quarantined_until <= dispatcher_now())"
_TOUCHED = f"""
    SELECT DISTINCT workflow_job_id
    FROM (SELECT workflow_job_id FROM workflow_touch UNION ALL {_DUE}) AS moved
    JOIN job ON job.id = workflow_job_id
    WHERE workflow_job_id > :behind AND {_ASIDE} ORDER BY 1 LIMIT :size
"""
_RUNNING = f"""
    SELECT id FROM job WHERE status = 'running' AND kind = 'workflow' AND id > :behind
      AND {_ASIDE} ORDER BY 1 LIMIT :size
"""
_NODES = """
    WITH gone AS (
        SELECT wanted.* FROM (
            SELECT DISTINCT spawns, template_id FROM workflow_node
            WHERE workflow_job_id = ANY(CAST(:ids AS bigint[]))
              AND job_id IS NULL AND spawns <> 'approval'
        ) AS wanted
        WHERE NOT CASE spawns
            WHEN 'job_template' THEN EXISTS (SELECT FROM job_template WHERE id = template_id)
            WHEN 'workflow_job_template'
                THEN EXISTS (SELECT FROM workflow_job_template WHERE id = template_id)
            WHEN 'project' THEN EXISTS (SELECT FROM project WHERE id = template_id)
            ELSE EXISTS (SELECT FROM inventory_source WHERE id = template_id) END
    )
    SELECT n.workflow_job_id, child.id, child.status, child.cancel_requested, child.finished,
        left_behind.job_id IS NOT NULL, coalesce(late.expires <= dispatcher_now(), false),
        n.id, n.identifier, n.do_not_run, n.spawns,
        n.job_id IS NULL AND gone.spawns IS NOT NULL,
        n.all_parents_must_converge, n.start_failure, n.attempt
    FROM workflow_node AS n
    LEFT JOIN job AS child ON child.id = n.job_id
    LEFT JOIN job_result AS left_behind
        ON left_behind.job_id = n.job_id AND left_behind.artifacts <> '{}'
    LEFT JOIN approval AS late ON late.job_id = n.job_id
    LEFT JOIN gone
        ON gone.spawns = n.spawns AND coalesce(gone.template_id, 0) = coalesce(n.template_id, 0)
    WHERE n.workflow_job_id = ANY(CAST(:ids AS bigint[]))
"""
# a row a workflow: one for each edge takes twice as long to read
_EDGES = """
    SELECT workflow_job_id, array_agg(parent_id), array_agg(child_id), array_agg(kind)
    FROM workflow_edge JOIN workflow_node ON workflow_node.id = parent_id
    WHERE workflow_job_id = ANY(CAST(:ids AS bigint[]))
    GROUP BY 1
"""


def touched_ids(connection: Connection, behind: int, size: int) -> list[int]:
    """Workflows that something moved under, or an approval of which is late, in order of id."""
    return list(connection.scalars(text(_TOUCHED), {"behind": behind, "size": size}))


def running_ids(connection: Connection, behind: int, size: int) -> list[int]:
    """Running workflows in order of id."""
    return list(connection.scalars(text(_RUNNING), {"behind": behind, "size": size}))


def read_touches(connection: Connection, ids: Sequence[int]) -> dict[int, list[int]]:
    """Workflow → the ids of its touches."""
    rows = connection.execute(
        text(
            "SELECT workflow_job_id, array_agg(id) FROM workflow_touch"
            " WHERE workflow_job_id = ANY(CAST(:ids AS bigint[])) GROUP BY 1"
        ),
        {"ids": ids},
    )
    return dict(rows.all())


def next_expiry(connection: Connection) -> datetime | None:
    """When the next pending approval is late."""
    due: datetime | None = connection.execute(
        text(
            "SELECT min(expires) FROM job JOIN approval ON job_id = id"
            " WHERE status = 'pending' AND kind = 'approval'"
        )
    ).scalar()
    return due


def read_workflows(connection: Connection, ids: Sequence[int]) -> dict[int, WorkflowJob]:
    """Those of the given workflow jobs that run, with their nodes and edges."""
    running: Mapping[int, bool] = dict(
        connection.execute(
            text(
                "SELECT id, cancel_requested FROM job WHERE id = ANY(CAST(:ids AS bigint[]))"
                " AND status = 'running' AND kind = 'workflow'"
            ),
            {"ids": ids},
        ).all()
    )
    nodes: dict[int, list[WorkflowNode]] = defaultdict(list)
    for row in connection.execute(text(_NODES), {"ids": list(running)}).all():
        workflow, child, status, canceled, finished, left, late, node, name, skip, *rest = row
        job = None
        if child is not None:
            job = ChildJob(child, _STATUSES[status], canceled, finished, left, late)
        nodes[workflow].append(WorkflowNode(node, name, skip, job, *rest))
    edges: dict[int, tuple[tuple[int, int, str], ...]] = {
        workflow: tuple(zip(parents, children, kinds, strict=True))
        for workflow, parents, children, kinds in connection.execute(
            text(_EDGES), {"ids": list(running)}
        )
    }
    return {
        id: WorkflowJob(id, cancel, tuple(nodes.get(id, ())), edges.get(id, ()))
        for id, cancel in running.items()
    }
