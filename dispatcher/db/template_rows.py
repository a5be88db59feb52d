"""What the launch of templates reads: a fixed number of statements, whatever their number."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text


@dataclass(frozen=True)
class Project:
    """A project as it is to be fetched."""

    id: int
    organization_id: int
    name: str
    scm_type: str
    scm_url: str
    local_path: str
    scm_branch: str
    update_on_launch: bool
    cache_timeout: int
    timeout: int
    credential_id: int | None
    credential_name: str | None


@dataclass(frozen=True)
class StoredInventoryHead:
    """What a launch needs of an inventory whose hosts it does not look at.

    Attributes:
        updates_on_launch: some source of it is updated before each job.
    """

    id: int
    revision: int
    host_count: int
    updates_on_launch: bool


def read_templates(connection: Connection, ids: Collection[int]) -> dict[int, Mapping[str, Any]]:
    """Job templates by id, with ``organization_groups`` and ``credentials``."""
    rows = connection.execute(
        text(
            "SELECT job_template.*, organization.instance_groups AS organization_groups,"
            " ARRAY(SELECT credential_id FROM job_template_credential WHERE job_template_id ="
            " job_template.id ORDER BY credential_id) AS credentials"
            " FROM job_template JOIN organization ON organization.id = organization_id"
            " WHERE job_template.id = ANY(CAST(:ids AS bigint[]))"
        ),
        {"ids": list(ids)},
    )
    return {row["id"]: dict(row) for row in rows.mappings()}


def read_projects(connection: Connection, ids: Collection[int]) -> dict[int, Project]:
    """Projects by id."""
    rows = connection.execute(
        text(
            "SELECT id, organization_id, name, scm_type, scm_url, local_path, scm_branch,"
            " update_on_launch, cache_timeout, timeout, credential_id,"
            " (SELECT name FROM credential WHERE credential.id = credential_id) FROM project"
            " WHERE id = ANY(CAST(:ids AS bigint[]))"
        ),
        {"ids": list(ids)},
    )
    return {row.id: Project(*row) for row in rows}


def read_inventory_heads(
    connection: Connection, ids: Collection[int]
) -> dict[int, StoredInventoryHead]:
    """Inventories by id."""
    rows = connection.execute(
        text(
            "SELECT id, revision, host_count, EXISTS (SELECT FROM inventory_source"
            " WHERE inventory_id = inventory.id AND update_on_launch) FROM inventory"
            " WHERE id = ANY(CAST(:ids AS bigint[]))"
        ),
        {"ids": list(ids)},
    )
    return {row[0]: StoredInventoryHead(*row) for row in rows}


def read_group_names(connection: Connection) -> dict[int, str]:
    """Every instance group: id → name."""
    rows = connection.execute(text("SELECT id, name FROM instance_group"))
    return {row.id: row.name for row in rows}


def updated_branches(
    connection: Connection, wanted: Collection[tuple[int, str]]
) -> set[tuple[int, str]]:
    """Those of the given (project id, branch) that have a successful update."""
    if not wanted:
        return set()
    rows = connection.execute(
        text(
            """
            SELECT v.project_id, v.branch
            FROM unnest(CAST(:projects AS bigint[]), CAST(:branches AS text[]))
                AS v(project_id, branch)
            WHERE EXISTS (SELECT FROM job JOIN job_project ON job_id = job.id
                WHERE job.project_id = v.project_id AND kind = 'project_update'
                  AND status = 'successful' AND scm_branch = v.branch
                  AND job_project.bundle_digest IS NOT NULL)
            """
        ),
        {"projects": [p for p, _ in wanted], "branches": [b for _, b in wanted]},
    )
    return {(row.project_id, row.branch) for row in rows}


def next_job_ids(connection: Connection, count: int) -> list[int]:
    """Ids for jobs that are about to be made."""
    return list(
        connection.scalars(
            text(
                "SELECT nextval(pg_get_serial_sequence('job', 'id'))"
                " FROM generate_series(1, :count)"
            ),
            {"count": count},
        )
    )


def project_row(project: Project, branch: str, job_id: int) -> dict[str, Any]:
    """The row of ``job_project``: what a job runs from, as the project was when it was launched."""
    return {
        "job_id": job_id,
        "scm_type": project.scm_type,
        "scm_url": project.scm_url,
        "local_path": project.local_path,
        "scm_branch": branch,
    }
