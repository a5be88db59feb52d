"""What the API reads of credentials: nothing that is secret."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Select, select

from dispatcher.db.listing import Field, FieldType, Listing
from dispatcher.db.tables import credential, job_template_credential, organization

_CREDENTIALS: Final[Select[Any]] = select(
    *(column for column in credential.c if column.name != "secrets"),
    organization.c.name.label("organization_name"),
).select_from(credential.join(organization, organization.c.id == credential.c.organization_id))

_FIELDS: Final = {
    "id": Field(credential.c.id, FieldType.INTEGER),
    "name": Field(credential.c.name, FieldType.TEXT),
    "description": Field(credential.c.description, FieldType.TEXT),
    "created": Field(credential.c.created, FieldType.TIME),
    "modified": Field(credential.c.modified, FieldType.TIME),
    "organization": Field(credential.c.organization_id, FieldType.INTEGER),
    "organization__name": Field(organization.c.name, FieldType.TEXT),
    "kind": Field(credential.c.kind, FieldType.TEXT),
}
_SEARCH: Final = ("name", "description", "kind")


def credential_listing() -> Listing:
    """All credentials."""
    return Listing(source=_CREDENTIALS, fields=_FIELDS, search=_SEARCH)


def credentials_of_template(template_id: int) -> Listing:
    """Those that jobs of one template use."""
    link = job_template_credential
    mine = select(link.c.credential_id).where(link.c.job_template_id == template_id)
    return Listing(
        source=_CREDENTIALS.where(credential.c.id.in_(mine)), fields=_FIELDS, search=_SEARCH
    )
