"""Spawning: jobs are made of the workflow nodes whose turn has come, a window's at once.

Runs under the locks of the workflows' rows. A node is spawned once for each attempt: under the lock
only a node without a job is, and ``workflow_spawn`` refuses a second job of one attempt. A node that
no job can be made of fails with the reason, and its workflow goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, text

from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db.workflow_touches import touch_workflows
from dispatcher.errors import DispatcherError
from schedulers.core.decision import FailNode, Spawn
from schedulers.core.plan_workflows import merge_prompts, merge_variables
from schedulers.passes.apply_workflows import fail_nodes, read_artifacts
from schedulers.passes.launch_nodes import LAUNCHERS, NodeLaunch
from schedulers.passes.manager_pass import Applied


def spawn(
    connection: Connection,
    decisions: Sequence[Spawn],
    going_on: Collection[int],
) -> Applied:
    """Make the jobs of nodes.

    Args:
        going_on: locked workflows that run and that nobody asked to cancel.
    """
    wanted = {d.workflow_node_id: d for d in decisions if d.workflow_job_id in going_on}
    launches = _read(connection, wanted)
    made: list[tuple[NodeLaunch, int]] = []
    failed: list[FailNode] = []
    owed = Owed()
    for spawns, nodes in launches.items():
        for node, launched in zip(nodes, LAUNCHERS[spawns](connection, nodes), strict=True):
            if isinstance(launched, DispatcherError):
                failed.append(FailNode(node.workflow_job_id, node.node_id, str(launched)))
            else:
                made.append((node, launched.job_id))
                owed += launched.owed
    _link(connection, made)
    applied = Applied(owed, {"spawn": len(made)}, changed=bool(made))
    return applied + _fail(connection, failed, going_on)


def _read(connection: Connection, wanted: Mapping[int, Spawn]) -> dict[str, list[NodeLaunch]]:
    """The nodes that still have no job, by what they spawn, in order of id."""
    launches: dict[str, list[NodeLaunch]] = defaultdict(list)
    if not wanted:
        return launches
    rows = connection.execute(
        text(
            "SELECT n.*, w.organization_id, w.launched_by, w.slice_count"
            " FROM workflow_node AS n JOIN job AS w ON w.id = n.workflow_job_id"
            " WHERE n.id = ANY(CAST(:ids AS bigint[])) AND n.job_id IS NULL"
            " AND NOT n.do_not_run AND n.start_failure = '' ORDER BY n.id"
        ),
        {"ids": list(wanted)},
    ).all()
    inputs = _inputs(connection, {row.workflow_job_id for row in rows})
    artifacts = read_artifacts(connection, {a for d in wanted.values() for a in d.artifacts_of})
    merged: dict[tuple[int, tuple[int, ...]], Mapping[str, Any]] = {}
    for row in rows:
        decision = wanted[row.id]
        if decision.attempt != row.attempt + 1:
            continue
        variables, prompts = inputs.get(row.workflow_job_id, ({}, {}))
        key = (row.workflow_job_id, decision.artifacts_of)
        if key not in merged:
            merged[key] = merge_variables(
                (artifacts.get(job_id, {}) for job_id in decision.artifacts_of), variables
            )
        launches[row.spawns].append(
            NodeLaunch(
                node_id=row.id,
                workflow_job_id=row.workflow_job_id,
                organization_id=row.organization_id,
                template_id=row.template_id or 0,
                prompts=merge_prompts(row.prompts, prompts),
                variables=merged[key],
                principal=row.launched_by,
                slice_number=row.slice_number,
                slice_count=row.slice_count if row.slice_number else 1,
                approval_name=row.approval_name,
                approval_timeout=row.approval_timeout,
            )
        )
    return launches


def _inputs(
    connection: Connection, workflow_ids: Collection[int]
) -> dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Workflow → its variables and prompts."""
    rows = connection.execute(
        text(
            "SELECT job_id, extra_vars, prompts FROM workflow_input"
            " WHERE job_id = ANY(CAST(:ids AS bigint[]))"
        ),
        {"ids": sorted(workflow_ids)},
    )
    return {row.job_id: (row.extra_vars, row.prompts) for row in rows}


def _link(connection: Connection, made: Sequence[tuple[NodeLaunch, int]]) -> None:
    if not made:
        return
    pairs = {"nodes": [node.node_id for node, _ in made], "jobs": [job_id for _, job_id in made]}
    connection.execute(
        text(
            """
            WITH linked AS (
                UPDATE workflow_node SET job_id = v.job_id, attempt = attempt + 1
                FROM unnest(CAST(:nodes AS bigint[]), CAST(:jobs AS bigint[])) AS v(node_id, job_id)
                WHERE id = v.node_id
                RETURNING id, attempt, v.job_id
            )
            INSERT INTO workflow_spawn (workflow_node_id, attempt, job_id) SELECT * FROM linked
            """
        ),
        pairs,
    )


def _fail(connection: Connection, failed: Sequence[FailNode], going_on: Collection[int]) -> Applied:
    """Nodes that could not be started; their workflows are evaluated again."""
    if not failed:
        return Applied()
    touch_workflows(connection, {decision.workflow_job_id for decision in failed})
    return fail_nodes(connection, failed, going_on) + Applied(wake(Manager.WORKFLOW), changed=True)
