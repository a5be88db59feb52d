"""Inventory sources: saved, changed, deleted. What an import brings is in ``import_inventory``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection

from dispatcher.actions import saving
from dispatcher.actions.save_credential import check_kind
from dispatcher.db import tables as t
from dispatcher.domain.credential import OF_SOURCES
from dispatcher.domain.launch_checks import flag_problem, inventory_path_problem, word_problem

SOURCE: Final = saving.Subject(
    table=t.inventory_source,
    word="inventory source",
    rules={
        "inventory_id": saving.id_problem,
        "name": saving.name_problem,
        "description": saving.text_problem,
        "project_id": saving.id_problem,
        "path": inventory_path_problem,
        "update_on_launch": flag_problem,
        "cache_timeout": saving.seconds_problem,
        "timeout": saving.seconds_problem,
        "gone_hosts": lambda v: word_problem(v, ("keep", "disable", "remove")),
        "credential_id": saving.optional_id_problem,
    },
    required=("inventory_id", "name", "project_id", "path"),
    references={
        "inventory_id": t.inventory,
        "project_id": t.project,
        "credential_id": t.credential,
    },
    names={
        "project_id": "source_project",
        "path": "source_path",
        "cache_timeout": "update_cache_timeout",
    },
    fixed=("inventory_id",),
    within="inventory_id",
)


def create_source(connection: Connection, values: Mapping[str, Any]) -> int:
    """Make an inventory source; its id.

    Raises:
        InvalidRequest: by field.
    """
    check_kind(connection, values.get("credential_id"), OF_SOURCES)
    return saving.create(connection, SOURCE, values)


def change_source(connection: Connection, source_id: int, values: Mapping[str, Any]) -> None:
    """Change an inventory source.

    Raises:
        NotFound: there is no such source.
        InvalidRequest: by field.
    """
    check_kind(connection, values.get("credential_id"), OF_SOURCES)
    saving.change(connection, SOURCE, source_id, values)


def delete_source(connection: Connection, source_id: int) -> None:
    """Delete an inventory source; the hosts that came from it stay, as if made by hand."""
    saving.remove(connection, SOURCE, source_id)
