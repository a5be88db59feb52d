"""What the API reads of project updates and inventory updates: jobs of their kind."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

from dispatcher.db.job_queries import job_listing
from dispatcher.db.listing import Field, FieldType, Listing
from dispatcher.db.tables import inventory, inventory_source, job, job_project, project
from dispatcher.domain.status import Kind

# other names: what the columns of every job look up by themselves must not be taken from these
_PROJECT: Final = project.alias("updated_project")
_FETCHED: Final = job_project.alias("fetched")
_INVENTORY: Final = inventory.alias("updated_inventory")
_SAME: Final = frozenset(
    {
        *("id", "uuid", "name", "status", "failed", "outcome", "launch_type", "launched_by__name"),
        *("created", "started", "finished", "canceled_on", "cancel_requested", "elapsed"),
        *("execution_node", "instance_group", "organization", "organization__name"),
    }
)


def project_update_listing() -> Listing:
    """All updates of projects."""
    jobs = job_listing(Kind.PROJECT_UPDATE)
    rows = (
        jobs.source.add_columns(
            _FETCHED.c.scm_type,
            _FETCHED.c.scm_url,
            _FETCHED.c.local_path,
            _FETCHED.c.bundle_digest.label("found_digest"),
        )
        .outerjoin(_PROJECT, _PROJECT.c.id == job.c.project_id)
        .outerjoin(_FETCHED, _FETCHED.c.job_id == job.c.id)
    )
    fields = {
        **{name: field for name, field in jobs.fields.items() if name in _SAME},
        "project": Field(job.c.project_id, FieldType.INTEGER),
        "project__name": Field(_PROJECT.c.name, FieldType.TEXT),
        "scm_branch": Field(_FETCHED.c.scm_branch, FieldType.TEXT),
        "scm_revision": Field(_FETCHED.c.revision, FieldType.TEXT),
    }
    return Listing(source=rows, fields=fields, search=("name", "scm_branch"))


def inventory_update_listing() -> Listing:
    """All updates of inventories from their sources."""
    jobs = job_listing(Kind.INVENTORY_UPDATE)
    rows = (
        jobs.source.add_columns(inventory_source.c.name.label("source_name"))
        .outerjoin(_INVENTORY, _INVENTORY.c.id == job.c.inventory_id)
        .outerjoin(inventory_source, inventory_source.c.id == job.c.inventory_source_id)
    )
    fields = {
        **{name: field for name, field in jobs.fields.items() if name in _SAME},
        "inventory": Field(job.c.inventory_id, FieldType.INTEGER),
        "inventory__name": Field(_INVENTORY.c.name, FieldType.TEXT),
        "inventory_source": Field(job.c.inventory_source_id, FieldType.INTEGER),
        "inventory_source__name": Field(inventory_source.c.name, FieldType.TEXT),
        "source_project": Field(job.c.project_id, FieldType.INTEGER),
    }
    return Listing(source=rows, fields=fields, search=("name",))


def read_kind(connection: Connection, job_id: int) -> Kind | None:
    """What kind of job this is."""
    kind = connection.scalar(text("SELECT kind FROM job WHERE id = :job"), {"job": job_id})
    return None if kind is None else Kind(kind)
