"""Projects, inventories and templates for tests, made by plain inserts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert

from dispatcher.db import tables as t
from tests.factories import default_organization, make_job, store_bundle

_numbers = itertools.count(1)


def make_project(connection: Connection, **columns: Any) -> int:
    values = {
        "organization_id": default_organization(connection),
        "name": f"project {next(_numbers)}",
        "scm_type": "git",
        "scm_url": "https://git.example/x.git",
    }
    return connection.execute(
        insert(t.project).values(values | columns).returning(t.project.c.id)
    ).scalar_one()


def updated(
    connection: Connection,
    project: int,
    branch: str = "",
    files: Mapping[str, str] | None = None,
    **columns: Any,
) -> int:
    """A successful update of a project, with content; its job's id."""
    digest = store_bundle(connection, files or {"site.yml": f"# {next(_numbers)}\n"})
    job_id = make_job(
        connection, kind="project_update", status="successful", project_id=project, **columns
    )
    connection.execute(
        insert(t.job_project).values(
            job_id=job_id, scm_type="git", scm_branch=branch, revision="r", bundle_digest=digest
        )
    )
    return job_id


def make_inventory(
    connection: Connection,
    hosts: Sequence[str] = (),
    *,
    addresses: Mapping[str, str | None] | None = None,
    **columns: Any,
) -> int:
    values = {
        "organization_id": default_organization(connection),
        "name": f"inventory {next(_numbers)}",
        "host_count": len(hosts),
    }
    inventory = connection.execute(
        insert(t.inventory).values(values | columns).returning(t.inventory.c.id)
    ).scalar_one()
    known = addresses or {}
    if hosts:
        connection.execute(
            insert(t.inventory_host),
            [
                {"inventory_id": inventory, "name": h, "address": known.get(h, f"{h}:22")}
                for h in hosts
            ],
        )
    return inventory


def make_source(connection: Connection, inventory: int, project: int, **columns: Any) -> int:
    values = {
        "inventory_id": inventory,
        "project_id": project,
        "name": f"source {next(_numbers)}",
        "path": "hosts.yml",
    }
    return connection.execute(
        insert(t.inventory_source).values(values | columns).returning(t.inventory_source.c.id)
    ).scalar_one()


def make_template(
    connection: Connection, project: int | None, inventory: int | None, **columns: Any
) -> int:
    values = {
        "organization_id": default_organization(connection),
        "name": f"template {next(_numbers)}",
        "project_id": project,
        "inventory_id": inventory,
        "playbook": "site.yml",
    }
    return connection.execute(
        insert(t.job_template).values(values | columns).returning(t.job_template.c.id)
    ).scalar_one()


def make_one_of_each(connection: Connection) -> dict[str, int]:
    """An object of each kind that callers make, and an update of it: resource → its number."""
    project = make_project(connection)
    inventory = make_inventory(connection, ["web1"])
    source = make_source(connection, inventory, project)
    group = connection.execute(
        insert(t.inventory_group)
        .values(inventory_id=inventory, name="web")
        .returning(t.inventory_group.c.id)
    ).scalar_one()
    update = make_job(
        connection,
        kind="inventory_update",
        status="successful",
        project_id=project,
        inventory_id=inventory,
        inventory_source_id=source,
    )
    credential = connection.execute(
        insert(t.credential)
        .values(
            organization_id=default_organization(connection),
            name=f"credential {next(_numbers)}",
            kind="ssh",
        )
        .returning(t.credential.c.id)
    ).scalar_one()
    return {
        "projects": project,
        "credentials": credential,
        "project_updates": updated(connection, project),
        "inventories": inventory,
        "groups": group,
        "inventory_sources": source,
        "inventory_updates": update,
    }
