"""``inventory_sources/``: where an inventory's hosts and groups come from, and their updates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import Field
from sqlalchemy import Connection

from dispatcher.actions import save_source as save
from dispatcher.actions.launch_update import launch_inventory_update
from dispatcher.actions.launched import Launched
from dispatcher.api.v2 import objects, updates
from dispatcher.api.v2.inventory_updates import INVENTORY_UPDATES, LaunchedInventoryUpdate
from dispatcher.api.v2.object_form import Stored, capabilities, named, stored
from dispatcher.api.v2.resource import ROOT, Row, url_of
from dispatcher.broker.messages import Owed
from dispatcher.db import inventory_queries as queries
from dispatcher.db.project_queries import read_updates


class InventorySource(Stored):
    """A file, directory, script or plugin configuration in a project that names hosts."""

    inventory: int = Field(description="Inventory that it fills.")
    source: str = Field(description="Always `scm`: it is in a project.")
    source_project: int = Field(description="Project that it is in.")
    source_path: str = Field(description="Its path in the project.")
    update_on_launch: bool = Field(description="Whether a job of the inventory updates it first.")
    update_cache_timeout: int = Field(
        description="Seconds for which an update is new enough for the jobs that follow."
    )
    timeout: int = Field(description="Seconds after which an update is stopped; 0: never.")
    gone_hosts: str = Field(
        description="What becomes of hosts that it does not name any more: `keep`, `disable`"
        " or `remove`."
    )
    overwrite: bool = Field(description="Whether they are removed.")
    overwrite_vars: bool = Field(description="Always true: its variables win.")
    status: str = Field(
        description="That of the newest update that has not ended, else of the last one, else"
        " `never updated`."
    )
    last_job_run: datetime | None = Field(description="When the last update ended.")
    last_updated: datetime | None = Field(description="The same.")
    last_job_failed: bool = Field(description="Whether it ended in any other way than well.")
    last_update_failed: bool = Field(description="The same.")
    next_job_run: datetime | None = Field(description="Always null.")
    credential: int | None = Field(
        description="Credential of kind `environment` that its updates are given."
    )
    execution_environment: int | None = Field(description="Always null.")
    enabled_var: str = Field(description="Always empty.")
    host_filter: str = Field(description="Always empty.")


class SourceChanges(objects.Body):
    """What can be changed of an inventory source."""

    name: str = Field("", description="Unique in its inventory.", examples=["cmdb"])
    inventory: int = Field(0, description="Number of its inventory; never changes.", examples=[1])
    description: str = Field("", description="What it is for, in words.")
    source_project: int = Field(0, description="Number of the project that it is in.", examples=[1])
    source_path: str = Field("", description="Its path in the project.", examples=["hosts.yml"])
    update_on_launch: bool = Field(
        False, description="Whether a job of the inventory updates it first."
    )
    update_cache_timeout: int = Field(
        0, description="Seconds for which an update is new enough for the jobs that follow."
    )
    timeout: int = Field(600, description="Seconds after which an update is stopped; 0: never.")
    gone_hosts: str = Field(
        "disable",
        description="What becomes of hosts that it does not name any more: `keep`, `disable`"
        " or `remove`.",
    )
    credential: int | None = Field(
        None,
        description="Number of the credential of kind `environment` that its updates are given.",
    )


class SourceInInventory(SourceChanges):
    """A source to be made in an inventory that the path names."""

    name: str = Field(description="Unique in its inventory.", examples=["cmdb"])
    source_project: int = Field(description="Number of the project that it is in.", examples=[1])
    source_path: str = Field(description="Its path in the project.", examples=["hosts.yml"])


class NewSource(SourceInInventory):
    """A source to be made."""

    inventory: int = Field(description="Number of its inventory; never changes.", examples=[1])


def _render(connection: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    newest = read_updates(connection, "inventory_update", [row["id"] for row in rows])
    return [_one(row, newest.get(row["id"], [])) for row in rows]


def _one(row: Row, newest: Sequence[Row]) -> dict[str, Any]:
    shown, related, summary = updates.last_of(newest, "inventory_updates")
    of_it = f"/?inventory_source={row['id']}"
    return {
        **stored(row, "inventory_source", "inventory_sources"),
        **{name: row[name] for name in ("update_on_launch", "timeout", "gone_hosts")},
        **shown,
        "inventory": row["inventory_id"],
        "source": "scm",
        "source_project": row["project_id"],
        "source_path": row["path"],
        "update_cache_timeout": row["cache_timeout"],
        "overwrite": row["gone_hosts"] == "remove",
        "overwrite_vars": True,
        "related": {
            **related,
            "inventory": url_of("inventories", row["inventory_id"]),
            "source_project": url_of("projects", row["project_id"]),
            "update": f"{url_of('inventory_sources', row['id'])}update/",
            "schedules": f"{url_of('inventory_sources', row['id'])}schedules/",
            "inventory_updates": f"{ROOT}inventory_updates{of_it}",
        },
        "summary_fields": {
            **summary,
            "inventory": {
                **named(row["inventory_id"], row["inventory_name"]),
                "organization_id": row["organization_id"],
            },
            "source_project": named(row["project_id"], row["project_name"]),
            "user_capabilities": capabilities(start=True),
        },
        "next_job_run": None,
        "credential": row["credential_id"],
        "execution_environment": None,
        "enabled_var": "",
        "host_filter": "",
    }


def _create(connection: Connection, values: dict[str, Any], by: str) -> tuple[int, Owed]:
    return save.create_source(connection, values), Owed()


def _change(connection: Connection, source_id: int, values: dict[str, Any], by: str) -> Owed:
    save.change_source(connection, source_id, values)
    return Owed()


def _delete(connection: Connection, source_id: int) -> Owed:
    save.delete_source(connection, source_id)
    return Owed()


def _launch(
    connection: Connection, source_id: int, by: str, key: str | None, uuid: UUID
) -> Launched:
    return launch_inventory_update(
        connection, source_id, principal=by, idempotency_key=key, uuid=uuid
    )


SOURCE: Final = objects.Noun(
    word="inventory source",
    resource="inventory_sources",
    key="source_id",
    tag="inventories",
    model=InventorySource,
    new=NewSource,
    changes=SourceChanges,
    subject=save.SOURCE,
    listing=queries.source_listing,
    render=_render,
    create=_create,
    change=_change,
    delete=_delete,
)

router = SOURCE.router()
objects.add_routes(router, SOURCE)
updates.add_launch(router, SOURCE, INVENTORY_UPDATES, LaunchedInventoryUpdate, _launch)
