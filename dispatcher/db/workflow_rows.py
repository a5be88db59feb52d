"""Rows of workflow jobs: made in batches, with copies of the graphs that they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, insert, text

from dispatcher.db import tables as t
from dispatcher.domain.status import Kind

#: What a node is copied with, from a template or from a run.
_COPIED = (
    "identifier, spawns, template_id, all_parents_must_converge, prompts, approval_name,"
    " approval_timeout"
)


@dataclass(frozen=True)
class WorkflowRow:
    """A workflow job that is to be made; its graph comes by one of the functions below.

    Attributes:
        workflow_job_template_id: None of a sliced launch.
        job_template_id: of a sliced launch.
        extra_vars, prompts: what its nodes get.
        slice_count: of a sliced launch.
    """

    id: int
    uuid: UUID
    name: str
    organization_id: int
    principal: str
    launch_type: str
    extra_vars: Mapping[str, Any]
    prompts: Mapping[str, Any]
    workflow_job_template_id: int | None = None
    job_template_id: int | None = None
    allow_simultaneous: bool = True
    priority: int = 0
    slice_count: int = 1


def new_ids(connection: Connection, count: int) -> list[int]:
    """Ids for jobs that are about to be made."""
    if not count:
        return []
    return list(
        connection.scalars(
            text(
                "SELECT nextval(pg_get_serial_sequence('job', 'id'))"
                " FROM generate_series(1, :count)"
            ),
            {"count": count},
        )
    )


def insert_workflow_jobs(connection: Connection, rows: Sequence[WorkflowRow]) -> None:
    """pending workflow jobs and what they were launched with; the TaskManager begins them."""
    if not rows:
        return
    connection.execute(
        insert(t.job),
        [
            {
                "id": row.id,
                "uuid": row.uuid,
                "kind": Kind.WORKFLOW,
                "name": row.name,
                "organization_id": row.organization_id,
                "launched_by": row.principal,
                "launch_type": row.launch_type,
                "priority": row.priority,
                "task_impact": 0,
                "preferred_groups": [],
                "dependencies_processed": True,
                "workflow_job_template_id": row.workflow_job_template_id,
                "job_template_id": row.job_template_id,
                "allow_simultaneous": row.allow_simultaneous,
                "slice_count": row.slice_count,
            }
            for row in rows
        ],
    )
    connection.execute(
        insert(t.workflow_input),
        [
            {"job_id": row.id, "extra_vars": dict(row.extra_vars), "prompts": dict(row.prompts)}
            for row in rows
        ],
    )


def copy_template_graphs(connection: Connection, templates: Mapping[int, int]) -> None:
    """Copy nodes and edges: workflow job → the workflow job template that it runs."""
    if not templates:
        return
    pairs = {"jobs": list(templates), "templates": list(templates.values())}
    connection.execute(
        text(
            f"""
            INSERT INTO workflow_node (workflow_job_id, {_COPIED})
            SELECT v.job_id, {_COPIED}
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:templates AS bigint[])) AS v(job_id, wanted)
            JOIN workflow_template_node ON workflow_job_template_id = v.wanted
            ORDER BY v.job_id, workflow_template_node.id
            """
        ),
        pairs,
    )
    connection.execute(
        text(
            """
            INSERT INTO workflow_edge (parent_id, child_id, kind)
            SELECT parent.id, child.id, edge.kind
            FROM unnest(CAST(:jobs AS bigint[]), CAST(:templates AS bigint[])) AS v(job_id, wanted)
            JOIN workflow_template_node AS above ON above.workflow_job_template_id = v.wanted
            JOIN workflow_template_edge AS edge ON edge.parent_id = above.id
            JOIN workflow_template_node AS below ON below.id = edge.child_id
            JOIN workflow_node AS parent
                ON parent.workflow_job_id = v.job_id AND parent.identifier = above.identifier
            JOIN workflow_node AS child
                ON child.workflow_job_id = v.job_id AND child.identifier = below.identifier
            """
        ),
        pairs,
    )


def copy_run_graph(connection: Connection, *, run: int, into: int, keep: Sequence[int]) -> None:
    """Copy the nodes and edges of a workflow job that ended.

    Args:
        keep: ids of its nodes that are taken over with their jobs; all others are to run again.
    """
    connection.execute(
        text(
            f"""
            INSERT INTO workflow_node (workflow_job_id, slice_number, job_id, {_COPIED})
            SELECT :into, slice_number,
                CASE WHEN id = ANY(CAST(:keep AS bigint[])) THEN job_id END, {_COPIED}
            FROM workflow_node WHERE workflow_job_id = :run ORDER BY id
            """
        ),
        {"run": run, "into": into, "keep": list(keep)},
    )
    connection.execute(
        text(
            """
            INSERT INTO workflow_edge (parent_id, child_id, kind)
            SELECT parent.id, child.id, edge.kind
            FROM workflow_node AS above
            JOIN workflow_edge AS edge ON edge.parent_id = above.id
            JOIN workflow_node AS below ON below.id = edge.child_id
            JOIN workflow_node AS parent
                ON parent.workflow_job_id = :into AND parent.identifier = above.identifier
            JOIN workflow_node AS child
                ON child.workflow_job_id = :into AND child.identifier = below.identifier
            WHERE above.workflow_job_id = :run
            """
        ),
        {"run": run, "into": into},
    )


def insert_slices(
    connection: Connection,
    *,
    workflow: int,
    template_id: int,
    count: int,
    prompts: Mapping[str, Any],
) -> None:
    """Root nodes that spawn one job template, each for its part of the hosts."""
    connection.execute(
        insert(t.workflow_node),
        [
            {
                "workflow_job_id": workflow,
                "identifier": f"slice {number}",
                "spawns": "job_template",
                "template_id": template_id,
                "prompts": dict(prompts),
                "slice_number": number,
            }
            for number in range(1, count + 1)
        ],
    )


def skip_undecided(connection: Connection, workflow_ids: Sequence[int]) -> None:
    """No node of these workflows that has no job will ever run: they were canceled unbegun."""
    if workflow_ids:
        connection.execute(
            text(
                "UPDATE workflow_node SET do_not_run = true"
                " WHERE workflow_job_id = ANY(CAST(:ids AS bigint[]))"
                " AND job_id IS NULL AND start_failure = '' AND NOT do_not_run"
            ),
            {"ids": list(workflow_ids)},
        )
