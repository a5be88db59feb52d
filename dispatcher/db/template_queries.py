"""What the API reads of job templates."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ARRAY, BigInteger, Select, func, literal, select

from dispatcher.db.listing import Field, FieldType, Listing
from dispatcher.db.tables import (
    inventory,
    job_template,
    job_template_credential,
    organization,
    project,
)

_CREDENTIALS: Final = (
    select(
        func.coalesce(
            func.array_agg(job_template_credential.c.credential_id),
            literal([], ARRAY(BigInteger)),
        )
    )
    .where(job_template_credential.c.job_template_id == job_template.c.id)
    .scalar_subquery()
    .label("credentials")
)

_TEMPLATES: Final[Select[Any]] = select(
    job_template,
    organization.c.name.label("organization_name"),
    project.c.name.label("project_name"),
    inventory.c.name.label("inventory_name"),
    _CREDENTIALS,
).select_from(
    job_template.join(organization, organization.c.id == job_template.c.organization_id)
    .outerjoin(project, project.c.id == job_template.c.project_id)
    .outerjoin(inventory, inventory.c.id == job_template.c.inventory_id)
)

_FIELDS: Final = {
    "id": Field(job_template.c.id, FieldType.INTEGER),
    "name": Field(job_template.c.name, FieldType.TEXT),
    "description": Field(job_template.c.description, FieldType.TEXT),
    "created": Field(job_template.c.created, FieldType.TIME),
    "modified": Field(job_template.c.modified, FieldType.TIME),
    "organization": Field(job_template.c.organization_id, FieldType.INTEGER),
    "organization__name": Field(organization.c.name, FieldType.TEXT),
    "project": Field(job_template.c.project_id, FieldType.INTEGER),
    "project__name": Field(project.c.name, FieldType.TEXT),
    "inventory": Field(job_template.c.inventory_id, FieldType.INTEGER),
    "inventory__name": Field(inventory.c.name, FieldType.TEXT),
    "playbook": Field(job_template.c.playbook, FieldType.TEXT),
    "job_type": Field(job_template.c.job_type, FieldType.TEXT),
    "priority": Field(job_template.c.priority, FieldType.INTEGER),
}


def template_listing() -> Listing:
    """All job templates."""
    return Listing(source=_TEMPLATES, fields=_FIELDS, search=("name", "description", "playbook"))
