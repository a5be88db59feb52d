"""What the API reads of organizations."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select

from dispatcher.db.listing import Field, FieldType, Listing
from dispatcher.db.tables import inventory, job_template, organization, pause, project

_ORGANIZATIONS: Final[Select[Any]] = select(
    organization,
    pause.c.id.is_not(None).label("paused"),
    func.coalesce(pause.c.reason, "").label("pause_reason"),
).select_from(organization.outerjoin(pause, pause.c.organization_id == organization.c.id))

_FIELDS: Final = {
    "id": Field(organization.c.id, FieldType.INTEGER),
    "name": Field(organization.c.name, FieldType.TEXT),
    "description": Field(organization.c.description, FieldType.TEXT),
    "created": Field(organization.c.created, FieldType.TIME),
    "modified": Field(organization.c.modified, FieldType.TIME),
    "weight": Field(organization.c.weight, FieldType.NUMBER),
    "max_concurrent_jobs": Field(organization.c.max_concurrent_jobs, FieldType.INTEGER),
    "paused": Field(pause.c.id.is_not(None), FieldType.BOOLEAN),
}
_COUNTED: Final = {"projects": project, "inventories": inventory, "job_templates": job_template}


def organization_listing() -> Listing:
    """All organizations."""
    return Listing(source=_ORGANIZATIONS, fields=_FIELDS, search=("name", "description"))


def count_owned(connection: Connection, ids: Collection[int]) -> dict[str, dict[int, int]]:
    """How many objects of each kind belong to each of these organizations: kind → id → number."""
    found: dict[str, dict[int, int]] = {}
    for kind, table in _COUNTED.items():
        rows = connection.execute(
            select(table.c.organization_id, func.count())
            .where(table.c.organization_id.in_(ids))
            .group_by(table.c.organization_id)
        )
        found[kind] = {row[0]: row[1] for row in rows}
    return found
