"""What the API reads of inventories, their hosts, groups and sources."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, Select, Table, func, select, text

from dispatcher.db.listing import Field, FieldType, Listing
from dispatcher.db.tables import (
    inventory,
    inventory_group,
    inventory_group_child,
    inventory_group_host,
    inventory_host,
    inventory_source,
    organization,
    project,
)


def _fields(table: Table) -> dict[str, Field]:
    return {
        "id": Field(table.c.id, FieldType.INTEGER),
        "name": Field(table.c.name, FieldType.TEXT),
        "description": Field(table.c.description, FieldType.TEXT),
        "created": Field(table.c.created, FieldType.TIME),
        "modified": Field(table.c.modified, FieldType.TIME),
    }


def _inside(table: Table) -> Select[Any]:
    """Rows of what is in an inventory, with what that is called."""
    return select(
        table,
        inventory.c.name.label("inventory_name"),
        inventory.c.organization_id,
    ).select_from(table.join(inventory, inventory.c.id == table.c.inventory_id))


_OF_INVENTORY: Final = {
    "inventory__name": Field(inventory.c.name, FieldType.TEXT),
    "inventory__organization": Field(inventory.c.organization_id, FieldType.INTEGER),
}


def inventory_listing() -> Listing:
    """All inventories."""
    rows = select(inventory, organization.c.name.label("organization_name")).select_from(
        inventory.join(organization, organization.c.id == inventory.c.organization_id)
    )
    fields = {
        **_fields(inventory),
        "organization": Field(inventory.c.organization_id, FieldType.INTEGER),
        "organization__name": Field(organization.c.name, FieldType.TEXT),
        "host_count": Field(inventory.c.host_count, FieldType.INTEGER),
    }
    return Listing(source=rows, fields=fields, search=("name", "description"))


def host_listing(*, inventory_id: int | None = None, group_id: int | None = None) -> Listing:
    """All hosts; those of one inventory, or those put directly into one group."""
    rows = _inside(inventory_host)
    if inventory_id is not None:
        rows = rows.where(inventory_host.c.inventory_id == inventory_id)
    if group_id is not None:
        members = select(inventory_group_host.c.host_id).where(
            inventory_group_host.c.group_id == group_id
        )
        rows = rows.where(inventory_host.c.id.in_(members))
    fields = {
        **_fields(inventory_host),
        "enabled": Field(inventory_host.c.enabled, FieldType.BOOLEAN),
        "address": Field(inventory_host.c.address, FieldType.TEXT),
        "inventory": Field(inventory_host.c.inventory_id, FieldType.INTEGER),
        "inventory_source": Field(inventory_host.c.inventory_source_id, FieldType.INTEGER),
        **_OF_INVENTORY,
    }
    return Listing(source=rows, fields=fields, search=("name", "description"))


def group_listing(
    *, inventory_id: int | None = None, parent_id: int | None = None, host_id: int | None = None
) -> Listing:
    """All groups; those of one inventory, directly below one group, or that one host is put into."""
    rows = _inside(inventory_group)
    if inventory_id is not None:
        rows = rows.where(inventory_group.c.inventory_id == inventory_id)
    if parent_id is not None:
        below = select(inventory_group_child.c.child_id).where(
            inventory_group_child.c.parent_id == parent_id
        )
        rows = rows.where(inventory_group.c.id.in_(below))
    if host_id is not None:
        around = select(inventory_group_host.c.group_id).where(
            inventory_group_host.c.host_id == host_id
        )
        rows = rows.where(inventory_group.c.id.in_(around))
    fields = {
        **_fields(inventory_group),
        "inventory": Field(inventory_group.c.inventory_id, FieldType.INTEGER),
        "inventory_source": Field(inventory_group.c.inventory_source_id, FieldType.INTEGER),
        **_OF_INVENTORY,
    }
    return Listing(source=rows, fields=fields, search=("name", "description"))


def source_listing(*, inventory_id: int | None = None) -> Listing:
    """All inventory sources, or those of one inventory."""
    table = inventory_source
    rows = select(
        table,
        inventory.c.name.label("inventory_name"),
        inventory.c.organization_id,
        project.c.name.label("project_name"),
    ).select_from(
        table.join(inventory, inventory.c.id == table.c.inventory_id).join(
            project, project.c.id == table.c.project_id
        )
    )
    if inventory_id is not None:
        rows = rows.where(table.c.inventory_id == inventory_id)
    fields = {
        **_fields(table),
        "inventory": Field(table.c.inventory_id, FieldType.INTEGER),
        "source_project": Field(table.c.project_id, FieldType.INTEGER),
        "source_project__name": Field(project.c.name, FieldType.TEXT),
        "source_path": Field(table.c.path, FieldType.TEXT),
        "update_on_launch": Field(table.c.update_on_launch, FieldType.BOOLEAN),
        **_OF_INVENTORY,
    }
    return Listing(source=rows, fields=fields, search=("name", "description", "source_path"))


def count_members(connection: Connection, ids: Collection[int]) -> dict[str, dict[int, int]]:
    """How many hosts, groups and sources each of these inventories has: kind → id → number."""
    found: dict[str, dict[int, int]] = {}
    tables = {"hosts": inventory_host, "groups": inventory_group, "sources": inventory_source}
    for kind, table in tables.items():
        rows = connection.execute(
            select(table.c.inventory_id, func.count())
            .where(table.c.inventory_id.in_(ids))
            .group_by(table.c.inventory_id)
        )
        found[kind] = {row[0]: row[1] for row in rows}
    return found


def read_groups_of(
    connection: Connection, host_ids: Collection[int], *, most: int
) -> dict[int, list[RowMapping]]:
    """The first groups, by name, that each of these hosts is put into.

    Args:
        most: of each host; every row has ``total``.
    """
    rows = connection.execute(
        text(
            """
            SELECT host_id, id, name, total FROM (
                SELECT host_id, id, name, count(*) OVER of_host AS total,
                       row_number() OVER (of_host ORDER BY name) AS place
                FROM inventory_group_host JOIN inventory_group ON id = group_id
                WHERE host_id = ANY(CAST(:ids AS bigint[]))
                WINDOW of_host AS (PARTITION BY host_id)
            ) AS numbered WHERE place <= :most ORDER BY name
            """
        ),
        {"ids": list(host_ids), "most": most},
    )
    found: dict[int, list[RowMapping]] = {}
    for row in rows.mappings():
        found.setdefault(row["host_id"], []).append(row)
    return found
