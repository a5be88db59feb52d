"""A sliced launch of a job template: a workflow job whose root nodes run a part of the hosts each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection

from dispatcher.actions.launched import Launched
from dispatcher.broker.messages import Manager, wake
from dispatcher.db.workflow_rows import (
    WorkflowRow,
    insert_slices,
    insert_workflow_jobs,
    new_ids,
)


@dataclass(frozen=True)
class SlicedLaunch:
    """A launch of a job template that is to be sliced; its prompts were checked.

    Attributes:
        name, organization_id, allow_simultaneous, priority: the template's.
        slices: at least 2 (``dispatcher.domain.slices``).
        prompts: what the template asks for and was given; every slice gets them.
        variables: put over everything else in every slice.
    """

    template_id: int
    name: str
    organization_id: int
    slices: int
    principal: str
    launch_type: str = "manual"
    prompts: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    allow_simultaneous: bool = False
    priority: int = 0
    uuid: UUID = field(default_factory=uuid4)
    job_id: int | None = None


def launch_sliced(connection: Connection, launch: SlicedLaunch) -> Launched:
    """Make the workflow job and a node for each slice. The caller raises the change counter."""
    job_id = launch.job_id or new_ids(connection, 1)[0]
    row = WorkflowRow(
        id=job_id,
        uuid=launch.uuid,
        name=launch.name,
        organization_id=launch.organization_id,
        principal=launch.principal,
        launch_type=launch.launch_type,
        extra_vars=launch.variables,
        prompts={},
        job_template_id=launch.template_id,
        allow_simultaneous=launch.allow_simultaneous,
        priority=launch.priority,
        slice_count=launch.slices,
    )
    insert_workflow_jobs(connection, [row])
    insert_slices(
        connection,
        workflow=job_id,
        template_id=launch.template_id,
        count=launch.slices,
        prompts=launch.prompts,
    )
    return Launched(job_id, launch.uuid, True, wake(Manager.TASK))
