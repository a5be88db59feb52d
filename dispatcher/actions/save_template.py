"""Job templates: saved, changed, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, select

from dispatcher.actions import saving
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import tables as t
from dispatcher.db.change import raise_counter
from dispatcher.db.tables.templates import PROMPTS
from dispatcher.domain import launch_checks as check
from dispatcher.domain.prompts import RULES
from dispatcher.errors import InvalidRequest

_SAME = (
    "extra_vars",
    "tags",
    "skip_tags",
    "job_type",
    "verbosity",
    "diff_mode",
    "scm_branch",
    "forks",
    "timeout",
    "job_slice_count",
    "priority",
    "instance_groups",
)

TEMPLATE: Final = saving.Subject(
    table=t.job_template,
    word="job template",
    rules={
        "organization_id": saving.id_problem,
        "name": saving.name_problem,
        "description": saving.text_problem,
        "project_id": saving.optional_id_problem,
        "inventory_id": saving.optional_id_problem,
        "playbook": check.path_problem,
        "limit_pattern": check.limit_problem,
        "host_lock": lambda v: check.word_problem(v, ("none", "shared", "exclusive")),
        "allow_simultaneous": check.flag_problem,
        "max_concurrent_jobs": lambda v: check.number_problem(v, 0, 1_000_000),
        "retries_on_node_loss": lambda v: check.number_problem(v, 0, 100),
        **{name: RULES[name] for name in _SAME},
        **{f"ask_{name}_on_launch": check.flag_problem for name in PROMPTS},
    },
    required=("organization_id", "name", "playbook"),
    references={
        "organization_id": t.organization,
        "project_id": t.project,
        "inventory_id": t.inventory,
    },
)


def create_template(connection: Connection, values: Mapping[str, Any]) -> int:
    """Make a job template; its id.

    Args:
        values: columns; without an organization it belongs to that of its project.

    Raises:
        InvalidRequest: by field.
    """
    saving.check_groups(connection, values)
    return saving.create(connection, TEMPLATE, _with_organization(connection, values))


def change_template(connection: Connection, template_id: int, values: Mapping[str, Any]) -> Owed:
    """Change a job template; what is owed. Jobs that have been launched stay as they are.

    Raises:
        NotFound: there is no such template.
        InvalidRequest: by field.
    """
    saving.check_groups(connection, values)
    saving.change(connection, TEMPLATE, template_id, values)
    if "max_concurrent_jobs" not in values:
        return Owed()
    # the only column of a template that planners look at
    raise_counter(connection)
    return wake(Manager.TASK)


def _with_organization(connection: Connection, values: Mapping[str, Any]) -> dict[str, Any]:
    project = values.get("project_id")
    if "organization_id" in values or saving.optional_id_problem(project) or project is None:
        return dict(values)
    owner = connection.scalar(select(t.project.c.organization_id).where(t.project.c.id == project))
    if owner is None:
        raise InvalidRequest({"project": f"there is no project {project}"})
    return {**values, "organization_id": owner}


def delete_template(connection: Connection, template_id: int) -> None:
    """Delete a job template; its jobs stay, and workflow nodes of it fail when their turn comes.

    Raises:
        NotFound, Conflict: see :func:`saving.remove`.
    """
    saving.remove(connection, TEMPLATE, template_id)
