"""``credentials/``: what jobs log in with. Secrets go in and never come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi import Response
from pydantic import Field
from sqlalchemy import Connection

from dispatcher import logs
from dispatcher.actions import save_credential as save
from dispatcher.actions import saving
from dispatcher.api.auth import CallerParameter
from dispatcher.api.v2 import objects
from dispatcher.api.v2.object_form import Stored, capabilities, named, stored
from dispatcher.api.v2.resource import Row, url_of
from dispatcher.broker.messages import Owed
from dispatcher.db import credential_queries as queries

log = logs.get(__name__)

_INPUTS: Final = (
    "By kind. `ssh`: `username`, `password`, `ssh_key_data`, `ssh_key_unlock`, `become_method`,"
    " `become_username`, `become_password`. `vault`: `vault_id`, `vault_password`. `scm`:"
    " `username`, `password`, `ssh_key_data`, `ssh_key_unlock`. `environment`: `variables`, and"
    " `files` whose paths are put into variables."
)


class Credential(Stored):
    """What jobs log in with."""

    organization: int = Field(description="Organization that it belongs to.")
    kind: str = Field(description="`ssh`, `vault`, `scm` or `environment`.")
    inputs: dict[str, Any] = Field(
        description="What it consists of; in place of each secret stands `$encrypted$`."
    )


class CredentialChanges(objects.Body):
    """What can be changed of a credential."""

    name: str = Field("", description="Unique in its organization.", examples=["web servers"])
    description: str = Field("", description="What it is for, in words.")
    organization: int = Field(0, description="Number of its organization; never changes.")
    kind: str = Field("ssh", description="Its kind; never changes.", examples=["ssh"])
    inputs: dict[str, Any] = Field(
        default_factory=dict,
        description=f"{_INPUTS} They take the place of all that is stored; a secret that is sent"
        " as `$encrypted$` stays.",
        examples=[{"username": "deploy", "password": "…"}],
    )


class NewCredential(CredentialChanges):
    """A credential to be made."""

    name: str = Field(description="Unique in its organization.", examples=["web servers"])
    organization: int = Field(description="Number of its organization.", examples=[1])
    kind: str = Field(description="`ssh`, `vault`, `scm` or `environment`.", examples=["ssh"])
    inputs: dict[str, Any] = Field(
        description=_INPUTS, examples=[{"username": "deploy", "password": "…"}]
    )


def _render(_: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            **stored(row, "credential", "credentials"),
            "organization": row["organization_id"],
            "kind": row["kind"],
            "inputs": row["inputs"],
            "related": {"organization": url_of("organizations", row["organization_id"])},
            "summary_fields": {
                "organization": named(row["organization_id"], row["organization_name"]),
                "user_capabilities": capabilities(use=True),
            },
        }
        for row in rows
    ]


def _delete(connection: Connection, credential_id: int) -> Owed:
    save.delete_credential(connection, credential_id)
    return Owed()


CREDENTIAL: Final = objects.Noun(
    word="credential",
    resource="credentials",
    key="credential_id",
    tag="credentials",
    model=Credential,
    new=NewCredential,
    changes=CredentialChanges,
    subject=save.CREDENTIAL,
    listing=queries.credential_listing,
    render=_render,
    delete=_delete,
)

router = CREDENTIAL.router()
objects.add_list(router, CREDENTIAL)
objects.add_read(router, CREDENTIAL)
objects.add_delete(router, CREDENTIAL)


@router.post("/", summary="Make one of the credentials", status_code=201, response_model=Credential)
def create(caller: CallerParameter, body: NewCredential, response: Response) -> dict[str, Any]:
    """Secrets are encrypted before they are stored. `Location` names the new object."""
    values = saving.columns(save.CREDENTIAL, body.given())
    cipher = caller.services.cipher

    def make(connection: Connection, _by: str) -> tuple[int, Owed]:
        return save.create_credential(connection, values, cipher=cipher), Owed()

    found = objects.written(caller, CREDENTIAL, make)
    log.info("object_made", kind=CREDENTIAL.word, id=found["id"])
    response.headers["Location"] = url_of(CREDENTIAL.resource, found["id"])
    return found


def patch(caller: CallerParameter, object_id: int, body: objects.Body) -> dict[str, Any]:
    """Jobs that are claimed from now on use it as it is then."""
    values = saving.columns(save.CREDENTIAL, body.given())
    cipher = caller.services.cipher

    def change(connection: Connection, _by: str) -> tuple[int, Owed]:
        row = objects.read_row(connection, CREDENTIAL, object_id)
        changed = objects.without_same(CREDENTIAL, row, values)
        save.change_credential(connection, object_id, changed, cipher=cipher)
        return object_id, Owed()

    found = objects.written(caller, CREDENTIAL, change)
    log.info("object_changed", kind=CREDENTIAL.word, id=object_id, fields=sorted(values))
    return found


def replace(caller: CallerParameter, object_id: int, body: objects.Body) -> dict[str, Any]:
    """As PATCH, for clients that send the required fields each time."""
    return patch(caller, object_id, body)


router.patch("/{credential_id}/", summary="Change one credential", response_model=Credential)(
    objects.typed(patch, object_id=CREDENTIAL.number, body=CredentialChanges)
)
router.put(
    "/{credential_id}/",
    summary="Change one credential, required fields given",
    response_model=Credential,
)(objects.typed(replace, object_id=CREDENTIAL.number, body=NewCredential))
