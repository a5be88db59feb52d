"""Launch of workflow job templates: a workflow job with a copy of the template's graph.

Many are launched by the same number of statements as one: the WorkflowManager launches nested
workflows in batches.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import Connection, text

from dispatcher.actions.idempotency import take_key
from dispatcher.actions.launched import Launched
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db.change import raise_counter
from dispatcher.db.workflow_rows import (
    WorkflowRow,
    copy_template_graphs,
    insert_workflow_jobs,
    new_ids,
)
from dispatcher.domain import launch_checks as check
from dispatcher.errors import DispatcherError, InvalidRequest, NotFound

#: Prompts of a workflow: field → the column that says whether the template asks for it.
PROMPTS: Final = {
    "extra_vars": "ask_variables_on_launch",
    "limit": "ask_limit_on_launch",
    "inventory": "ask_inventory_on_launch",
}


@dataclass(frozen=True)
class WorkflowLaunch:
    """One launch of a workflow job template.

    Attributes:
        prompts: as a caller gives them; those that the template does not ask for are ignored.
        principal: shown as ``launched_by``.
        variables: put over everything else, asked for or not: what a surrounding workflow sets.
    """

    template_id: int
    prompts: Mapping[str, Any]
    principal: str
    launch_type: str = "manual"
    variables: Mapping[str, Any] = field(default_factory=dict)
    uuid: UUID = field(default_factory=uuid4)


def launch_workflow(
    connection: Connection,
    workflow_job_template_id: int,
    prompts: Mapping[str, Any],
    *,
    principal: str,
    launch_type: str = "manual",
    idempotency_key: str | None = None,
    uuid: UUID | None = None,
) -> Launched:
    """Make the job of a workflow job template, and copy the template's graph for it.

    Raises:
        NotFound: no such template.
        InvalidRequest: prompts that are wrong.
        Conflict: ``key_reused`` or ``in_progress``.
    """
    launch = WorkflowLaunch(
        workflow_job_template_id, prompts, principal, launch_type, uuid=uuid or uuid4()
    )
    (job_id,) = new_ids(connection, 1)
    if idempotency_key is not None:
        request = json.dumps([launch.template_id, prompts], sort_keys=True, default=str)
        earlier = take_key(
            connection,
            principal=principal,
            route="workflow_job_templates/launch",
            key=idempotency_key,
            digests=[hashlib.sha256(request.encode()).digest()],
            job_id=job_id,
        )
        if earlier is not None:
            return Launched(earlier.job_id, earlier.uuid, False, Owed())
    (launched,) = launch_workflows(connection, [launch], ids=[job_id])
    if isinstance(launched, DispatcherError):
        raise launched
    raise_counter(connection)
    return launched


def launch_workflows(
    connection: Connection, launches: Sequence[WorkflowLaunch], *, ids: Sequence[int] = ()
) -> list[Launched | DispatcherError]:
    """Make the jobs of a batch, in a number of statements that does not depend on its size.

    The caller raises the change counter.

    Args:
        ids: of the jobs, if the caller has taken them already.

    Returns:
        For each launch its job, or what is wrong with it; a wrong one disturbs no other.
    """
    templates = _templates(connection, {launch.template_id for launch in launches})
    inventories = _known_inventories(connection, launches)
    answers: list[Launched | DispatcherError] = []
    rows: list[WorkflowRow] = []
    for launch, job_id in zip(launches, ids or new_ids(connection, len(launches)), strict=True):
        template = templates.get(launch.template_id)
        if template is None:
            answers.append(NotFound(f"no workflow job template {launch.template_id}"))
            continue
        problems = _problems(launch.prompts, inventories)
        if problems:
            answers.append(InvalidRequest(problems))
            continue
        asked = {name for name, column in PROMPTS.items() if template[column]}
        rows.append(_row(launch, template, asked, job_id))
        ignored = {name: v for name, v in launch.prompts.items() if name not in asked}
        answers.append(Launched(job_id, launch.uuid, True, wake(Manager.TASK), ignored))
    insert_workflow_jobs(connection, rows)
    copy_template_graphs(
        connection,
        {row.id: row.workflow_job_template_id for row in rows if row.workflow_job_template_id},
    )
    return answers


def _templates(connection: Connection, ids: Collection[int]) -> dict[int, Mapping[str, Any]]:
    """The templates, held as they are until the transaction ends: saving a graph waits for it."""
    rows = connection.execute(
        text(
            "SELECT id, organization_id, name, extra_vars, prompts, allow_simultaneous,"
            " ask_variables_on_launch, ask_limit_on_launch, ask_inventory_on_launch"
            " FROM workflow_job_template WHERE id = ANY(CAST(:ids AS bigint[]))"
            " ORDER BY id FOR SHARE"
        ),
        {"ids": sorted(ids)},
    )
    return {row["id"]: row for row in (dict(each) for each in rows.mappings())}


def _known_inventories(connection: Connection, launches: Sequence[WorkflowLaunch]) -> set[int]:
    named = {
        inventory
        for launch in launches
        if type(inventory := launch.prompts.get("inventory")) is int and 0 < inventory < 2**63
    }
    if not named:
        return set()
    return set(
        connection.scalars(
            text("SELECT id FROM inventory WHERE id = ANY(CAST(:ids AS bigint[]))"),
            {"ids": sorted(named)},
        )
    )


def _problems(
    prompts: Mapping[str, Any], inventories: Collection[int]
) -> dict[str, str | list[str]]:
    found: dict[str, str | list[str] | None] = {}
    if "extra_vars" in prompts:
        found["extra_vars"] = check.variables_problems(prompts["extra_vars"])
    if "limit" in prompts:
        found["limit"] = check.limit_problem(prompts["limit"])
    inventory = prompts.get("inventory")
    if inventory is not None and not (type(inventory) is int and inventory in inventories):
        found["inventory"] = f"no inventory {inventory!r}"
    return {name: problem for name, problem in found.items() if problem}


def _row(
    launch: WorkflowLaunch, template: Mapping[str, Any], asked: Collection[str], job_id: int
) -> WorkflowRow:
    given = {name: v for name, v in launch.prompts.items() if name in asked and v is not None}
    variables = given.pop("extra_vars", {})
    return WorkflowRow(
        id=job_id,
        uuid=launch.uuid,
        name=template["name"],
        organization_id=template["organization_id"],
        principal=launch.principal,
        launch_type=launch.launch_type,
        extra_vars={**template["extra_vars"], **variables, **launch.variables},
        prompts={**template["prompts"], **given},
        workflow_job_template_id=template["id"],
        allow_simultaneous=template["allow_simultaneous"],
    )
