"""Projects: saved, changed, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, select

from dispatcher.actions import saving
from dispatcher.actions.save_credential import check_kind
from dispatcher.db import tables as t
from dispatcher.domain.credential import OF_PROJECTS
from dispatcher.domain.launch_checks import flag_problem, word_problem
from dispatcher.domain.project import local_path_problem, url_problem
from dispatcher.domain.prompts import branch_problem
from dispatcher.errors import InvalidRequest, NotFound

PROJECT: Final = saving.Subject(
    table=t.project,
    word="project",
    rules={
        "organization_id": saving.id_problem,
        "name": saving.name_problem,
        "description": saving.text_problem,
        "scm_type": lambda v: word_problem(v, ("git", "local")),
        "scm_url": lambda v: None if v == "" else url_problem(v),
        "local_path": lambda v: None if v == "" else local_path_problem(v),
        "scm_branch": branch_problem,
        "update_on_launch": flag_problem,
        "cache_timeout": saving.seconds_problem,
        "timeout": saving.seconds_problem,
        "credential_id": saving.optional_id_problem,
    },
    required=("organization_id", "name", "scm_type"),
    references={"organization_id": t.organization, "credential_id": t.credential},
    names={
        "update_on_launch": "scm_update_on_launch",
        "cache_timeout": "scm_update_cache_timeout",
    },
)


def create_project(connection: Connection, values: Mapping[str, Any]) -> int:
    """Make a project; its id.

    Raises:
        InvalidRequest: by field.
    """
    _check_source(values)
    _check_credential(connection, values)
    return saving.create(connection, PROJECT, values)


def change_project(connection: Connection, project_id: int, values: Mapping[str, Any]) -> None:
    """Change a project.

    Raises:
        NotFound: there is no such project.
        InvalidRequest: by field.
    """
    # locked: of two changes at once each could be right alone
    row = connection.execute(
        select(t.project).where(t.project.c.id == project_id).with_for_update(key_share=True)
    ).one_or_none()
    if row is None:
        raise NotFound(f"there is no project {project_id}")
    _check_source(dict(row._mapping) | dict(values))
    _check_credential(connection, dict(row._mapping) | dict(values))
    saving.change(connection, PROJECT, project_id, values)


def delete_project(connection: Connection, project_id: int) -> None:
    """Delete a project that no template and no inventory source uses.

    Raises:
        NotFound, Conflict: see :func:`saving.remove`.
    """
    saving.remove(connection, PROJECT, project_id)


def _check_credential(connection: Connection, values: Mapping[str, Any]) -> None:
    """Only git logs in anywhere, and only with a credential for it."""
    check_kind(connection, values.get("credential_id"), OF_PROJECTS)
    if values.get("credential_id") is not None and values.get("scm_type") == "local":
        raise InvalidRequest({"credential": "a project of type local has none"})


def _check_source(values: Mapping[str, Any]) -> None:
    """Each type of project has its own place, and no other."""
    kind = values.get("scm_type")
    wrong = {}
    for mine, column in (("git", "scm_url"), ("local", "local_path")):
        given = values.get(column, "")
        if kind == mine and not given:
            wrong[column] = f"a project of type {mine} needs it"
        elif kind != mine and given and kind in ("git", "local"):
            wrong[column] = f"a project of type {kind} has none"
    if wrong:
        raise InvalidRequest(wrong)
