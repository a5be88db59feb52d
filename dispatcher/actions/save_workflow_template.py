"""Workflow job templates: saved, changed, deleted. Their graphs: :mod:`save_workflow`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, select

from dispatcher.actions import saving
from dispatcher.actions.launch_workflow import PROMPTS
from dispatcher.db import tables as t
from dispatcher.domain import launch_checks as check
from dispatcher.domain.prompts import RULES
from dispatcher.errors import InvalidRequest, NotFound

#: What all nodes are given; kept together in the column ``prompts``.
GIVEN: Final = ("limit", "inventory")

WORKFLOW_TEMPLATE: Final = saving.Subject(
    table=t.workflow_job_template,
    word="workflow job template",
    rules={
        "organization_id": saving.id_problem,
        "name": saving.name_problem,
        "description": saving.text_problem,
        "extra_vars": RULES["extra_vars"],
        "prompts": lambda _: None,  # checked by name, below
        "allow_simultaneous": check.flag_problem,
        **dict.fromkeys(PROMPTS.values(), check.flag_problem),
    },
    required=("organization_id", "name"),
    references={"organization_id": t.organization},
)


def create_workflow_template(connection: Connection, values: Mapping[str, Any]) -> int:
    """Make a workflow job template without nodes; its id.

    Args:
        values: columns, and ``limit`` and ``inventory`` for all nodes.

    Raises:
        InvalidRequest: by field.
    """
    return saving.create(connection, WORKFLOW_TEMPLATE, _row(connection, values, {}))


def change_workflow_template(
    connection: Connection, template_id: int, values: Mapping[str, Any]
) -> None:
    """Change a workflow job template; runs of it stay as they are.

    Raises:
        NotFound: there is no such template.
        InvalidRequest: by field.
    """
    table = t.workflow_job_template
    before = connection.scalar(
        select(table.c.prompts).where(table.c.id == template_id).with_for_update()
    )
    if before is None:
        raise NotFound(f"there is no workflow job template {template_id}")
    row = _row(connection, values, before)
    saving.change(connection, WORKFLOW_TEMPLATE, template_id, row)


def delete_workflow_template(connection: Connection, template_id: int) -> None:
    """Delete a workflow job template with its graph; its runs stay, and nodes of other workflows
    that nest it fail when their turn comes.

    Raises:
        NotFound, Conflict: see :func:`saving.remove`.
    """
    saving.remove(connection, WORKFLOW_TEMPLATE, template_id)


def _row(
    connection: Connection, values: Mapping[str, Any], before: Mapping[str, Any]
) -> dict[str, Any]:
    """Columns, with the given prompts laid over those from before.

    Raises:
        InvalidRequest: a prompt is wrong.
    """
    given = {name: values[name] for name in GIVEN if name in values}
    columns = {name: value for name, value in values.items() if name not in GIVEN}
    if not given:
        return columns
    wrong: dict[str, Any] = {
        name: RULES[name](value) for name, value in given.items() if value not in (None, "")
    }
    inventory = given.get("inventory")
    if inventory is not None and not wrong.get("inventory"):
        known = t.inventory.c.id
        if connection.scalar(select(known).where(known == inventory)) is None:
            wrong["inventory"] = f"there is no inventory {inventory}"
    if any(wrong.values()):
        raise InvalidRequest({name: words for name, words in wrong.items() if words})
    kept = {name: value for name, value in before.items() if name not in given}
    laid = {name: value for name, value in given.items() if value not in (None, "")}
    return {**columns, "prompts": {**kept, **laid}}
