"""What the API reads of projects, and of the last updates of projects and inventory sources."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, Literal

from sqlalchemy import Connection, RowMapping, Select, select, text

from dispatcher.db.listing import Field, FieldType, Listing
from dispatcher.db.tables import organization, project

_PROJECTS: Final[Select[Any]] = select(
    project, organization.c.name.label("organization_name")
).select_from(project.join(organization, organization.c.id == project.c.organization_id))

_FIELDS: Final = {
    "id": Field(project.c.id, FieldType.INTEGER),
    "name": Field(project.c.name, FieldType.TEXT),
    "description": Field(project.c.description, FieldType.TEXT),
    "created": Field(project.c.created, FieldType.TIME),
    "modified": Field(project.c.modified, FieldType.TIME),
    "organization": Field(project.c.organization_id, FieldType.INTEGER),
    "organization__name": Field(organization.c.name, FieldType.TEXT),
    "scm_type": Field(project.c.scm_type, FieldType.TEXT),
    "scm_url": Field(project.c.scm_url, FieldType.TEXT),
    "scm_branch": Field(project.c.scm_branch, FieldType.TEXT),
    "local_path": Field(project.c.local_path, FieldType.TEXT),
    "scm_update_on_launch": Field(project.c.update_on_launch, FieldType.BOOLEAN),
}


def project_listing() -> Listing:
    """All projects."""
    return Listing(source=_PROJECTS, fields=_FIELDS, search=("name", "description", "scm_url"))


def read_updates(
    connection: Connection,
    kind: Literal["project_update", "inventory_update"],
    ids: Collection[int],
) -> dict[int, list[RowMapping]]:
    """The newest update of each project or source: one that has not ended, then one that has."""
    column = {"project_update": "project_id", "inventory_update": "inventory_source_id"}[kind]
    # two reads of one index: those that have not ended stand before all others
    rows = connection.execute(
        text(
            f"""
            SELECT found.* FROM unnest(CAST(:ids AS bigint[])) AS v(id), LATERAL (
                (SELECT job.id, {column} AS of, status, finished FROM job
                 WHERE {column} = v.id AND kind = :kind AND finished IS NULL
                 ORDER BY job.id DESC LIMIT 1)
                UNION ALL
                (SELECT job.id, {column} AS of, status, finished FROM job
                 WHERE {column} = v.id AND kind = :kind AND finished IS NOT NULL
                 ORDER BY finished DESC LIMIT 1)
            ) AS found
            ORDER BY finished NULLS FIRST
            """
        ),
        {"ids": list(ids), "kind": kind},
    )
    updates: dict[int, list[RowMapping]] = {}
    for row in rows.mappings():
        updates.setdefault(row["of"], []).append(row)
    return updates


def read_revisions(connection: Connection, job_ids: Collection[int]) -> dict[int, str]:
    """The revision that each of these updates found."""
    rows = connection.execute(
        text(
            "SELECT job_id, revision FROM job_project"
            " WHERE job_id = ANY(CAST(:ids AS bigint[])) AND revision <> ''"
        ),
        {"ids": list(job_ids)},
    )
    return {row.job_id: row.revision for row in rows}
