"""What the API reads of schedules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, Select, select, text

from dispatcher.db.listing import Field, FieldType, Listing
from dispatcher.db.tables import organization, schedule

_SCHEDULES: Final[Select[Any]] = select(
    schedule, organization.c.name.label("organization_name")
).join_from(schedule, organization, organization.c.id == schedule.c.organization_id)
_FIELDS: Final = {
    "id": Field(schedule.c.id, FieldType.INTEGER),
    "name": Field(schedule.c.name, FieldType.TEXT),
    "description": Field(schedule.c.description, FieldType.TEXT),
    "created": Field(schedule.c.created, FieldType.TIME),
    "modified": Field(schedule.c.modified, FieldType.TIME),
    "organization": Field(schedule.c.organization_id, FieldType.INTEGER),
    "organization__name": Field(organization.c.name, FieldType.TEXT),
    "unified_job_template": Field(schedule.c.template_id, FieldType.INTEGER),
    "enabled": Field(schedule.c.enabled, FieldType.BOOLEAN),
    "next_run": Field(schedule.c.next_run, FieldType.TIME),
    "last_run": Field(schedule.c.last_run, FieldType.TIME),
}
#: Launches that are shown of each schedule.
_SHOWN: Final = 5


def schedule_listing(launches: str | None = None, template_id: int | None = None) -> Listing:
    """All schedules, or those that launch one thing."""
    rows = _SCHEDULES
    if launches is not None:
        rows = rows.where(schedule.c.launches == launches, schedule.c.template_id == template_id)
    return Listing(source=rows, fields=_FIELDS, search=("name", "description"))


def read_last_launches(connection: Connection, ids: Collection[int]) -> dict[int, list[RowMapping]]:
    """What came of the last due times of each schedule, the newest first."""
    found: dict[int, list[RowMapping]] = defaultdict(list)
    rows = connection.execute(
        text(
            f"""
            SELECT wanted, last.* FROM unnest(CAST(:ids AS bigint[])) AS wanted
            CROSS JOIN LATERAL (
                SELECT due, launched, job_id, kind, error FROM schedule_launch
                LEFT JOIN job ON job.id = job_id
                WHERE schedule_id = wanted ORDER BY due DESC LIMIT {_SHOWN}
            ) AS last ORDER BY wanted, due DESC
            """
        ),
        {"ids": list(ids)},
    )
    for row in rows.mappings():
        found[row["wanted"]].append(row)
    return found
