"""``inventory_updates/``: the jobs that bring hosts and groups from sources."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from dispatcher.api.v2 import updates
from dispatcher.api.v2.job_models import JobInList
from dispatcher.api.v2.object_form import named
from dispatcher.api.v2.resource import Row, url_of
from dispatcher.db.update_queries import inventory_update_listing
from dispatcher.domain.status import Kind


class InventoryUpdate(JobInList):
    """A job that brings hosts and groups from a source. What only a playbook has is empty."""

    inventory_source: int | None = Field(description="Source; null when it was deleted since.")
    source: str = Field(description="Always `scm`: a file in a project.")
    source_path: str = Field(description="Path of the source in the project.")
    source_project: int | None = Field(description="Project; null when it was deleted since.")


class LaunchedInventoryUpdate(InventoryUpdate):
    """An update that was accepted."""

    inventory_update: int = Field(description="Number of the update.")


def _render(row: Row) -> dict[str, Any]:
    source = row["inventory_source_id"]
    found: dict[str, Any] = {
        "related": {},
        "summary_fields": {},
        "inventory_source": source,
        "unified_job_template": source,
        "source": "scm",
        "source_path": row["inventory_path"] or "",
        "source_project": row["project_id"],
    }
    if source is not None:
        found["related"] = {"inventory_source": url_of("inventory_sources", source)}
        found["summary_fields"] = {"inventory_source": named(source, row["source_name"])}
    return found


INVENTORY_UPDATES: Final = updates.Updates(
    kind=Kind.INVENTORY_UPDATE,
    resource="inventory_updates",
    model=InventoryUpdate,
    listing=inventory_update_listing,
    render=_render,
)

router = updates.make_router(INVENTORY_UPDATES)
