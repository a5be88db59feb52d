"""Relaunch of a workflow job: the same graph once more, whole or from the nodes that failed."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, text

from dispatcher.actions.launched import Launched
from dispatcher.broker.messages import Manager, wake
from dispatcher.db.change import raise_counter
from dispatcher.db.workflow_rows import (
    WorkflowRow,
    copy_run_graph,
    insert_workflow_jobs,
    new_ids,
)
from dispatcher.domain.status import FINAL, Kind, Status
from dispatcher.errors import Conflict, NotFound


def relaunch_workflow(
    connection: Connection,
    job_id: int,
    *,
    principal: str,
    from_failed: bool = False,
    uuid: UUID | None = None,
) -> Launched:
    """Run the graph that a workflow job ran, with what it was launched with.

    Args:
        from_failed: nodes that succeeded are taken over with their jobs and artifacts, except
            those that come behind a node that failed: what failed, what was not run, and
            everything behind it runs as the edges say.

    Raises:
        NotFound: no such workflow job.
        Conflict: ``not_final``, or ``nothing_failed`` with ``from_failed``.
    """
    run = connection.execute(
        text(
            "SELECT job.*, extra_vars, prompts FROM job LEFT JOIN workflow_input ON job_id = id"
            " WHERE id = :job AND kind = :kind"
        ),
        {"job": job_id, "kind": str(Kind.WORKFLOW)},
    ).one_or_none()
    if run is None:
        raise NotFound(f"no workflow job {job_id}")
    if run.status not in FINAL:
        raise Conflict(f"workflow job {job_id} has not ended: {run.status}", code="not_final")
    if from_failed and run.status == Status.SUCCESSFUL:
        raise Conflict(f"workflow job {job_id} has not failed", code="nothing_failed")
    keep = _kept(connection, job_id) if from_failed else []
    (new_id,) = new_ids(connection, 1)
    made = uuid or uuid4()
    insert_workflow_jobs(connection, [_row(run, new_id, made, principal)])
    copy_run_graph(connection, run=job_id, into=new_id, keep=keep)
    raise_counter(connection)
    return Launched(new_id, made, True, wake(Manager.TASK))


def _row(run: Any, new_id: int, uuid: UUID, principal: str) -> WorkflowRow:
    return WorkflowRow(
        id=new_id,
        uuid=uuid,
        name=run.name,
        organization_id=run.organization_id,
        principal=principal,
        launch_type="relaunch",
        extra_vars=run.extra_vars or {},
        prompts=run.prompts or {},
        workflow_job_template_id=run.workflow_job_template_id,
        job_template_id=run.job_template_id,
        allow_simultaneous=run.allow_simultaneous,
        priority=run.priority,
        slice_count=run.slice_count,
    )


def _kept(connection: Connection, job_id: int) -> list[int]:
    """The nodes that succeeded and do not come behind one that has to run again."""
    nodes = connection.execute(
        text(
            "SELECT n.id, n.do_not_run, n.start_failure <> '' AS start_failed, status"
            " FROM workflow_node n LEFT JOIN job ON job.id = n.job_id WHERE workflow_job_id = :job"
        ),
        {"job": job_id},
    ).all()
    succeeded = {node.id for node in nodes if node.status == Status.SUCCESSFUL}
    failed = [node.id for node in nodes if node.id not in succeeded and not node.do_not_run]
    return sorted(succeeded - _behind(connection, job_id, failed))


def _behind(connection: Connection, job_id: int, nodes: list[int]) -> set[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for parent, child in connection.execute(
        text(
            "SELECT parent_id, child_id FROM workflow_edge JOIN workflow_node ON id = parent_id"
            " WHERE workflow_job_id = :job"
        ),
        {"job": job_id},
    ):
        children[parent].append(child)
    found: set[int] = set()
    waiting = list(nodes)
    while waiting:
        for child in children[waiting.pop()]:
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found
