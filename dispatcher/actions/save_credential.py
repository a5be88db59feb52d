"""Credentials: saved, changed, deleted, and put into job templates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from dispatcher.actions import saving
from dispatcher.db import credential_rows
from dispatcher.db import tables as t
from dispatcher.domain import credential as rules
from dispatcher.domain.launch_checks import word_problem
from dispatcher.errors import Conflict, InvalidRequest, NotFound, SecretsUnreadable
from dispatcher.secrets import Cipher

CREDENTIAL: Final = saving.Subject(
    table=t.credential,
    word="credential",
    rules={
        "organization_id": saving.id_problem,
        "name": saving.name_problem,
        "description": saving.text_problem,
        "kind": lambda v: word_problem(v, rules.KINDS),
        # by kind: see _sealed
        "inputs": lambda _: None,
        "secrets": lambda _: None,
    },
    required=("organization_id", "name", "kind", "inputs"),
    references={"organization_id": t.organization},
    fixed=("kind", "organization_id"),
)


def create_credential(connection: Connection, values: Mapping[str, Any], *, cipher: Cipher) -> int:
    """Make a credential; its id.

    Raises:
        InvalidRequest: by field.
    """
    kind, inputs = values.get("kind"), values.get("inputs")
    sealed: dict[str, Any] = {}
    if kind in rules.KINDS and inputs is not None:
        sealed = _sealed(kind, inputs, cipher)
    return saving.create(connection, CREDENTIAL, {**values, **sealed})


def change_credential(
    connection: Connection, credential_id: int, values: Mapping[str, Any], *, cipher: Cipher
) -> None:
    """Change a credential. Jobs that are claimed from now on use what it is then.

    Args:
        values: ``inputs`` take the place of all that is stored; of those that are given as
            ``$encrypted$`` the stored secret stays.

    Raises:
        NotFound: there is no such credential.
        InvalidRequest: by field.
        Conflict: ``secrets_unreadable``: one is to stay, and this machine has not its key.
    """
    row = connection.execute(
        # locked: a secret that stays must be the one that is stored then
        select(t.credential)
        .where(t.credential.c.id == credential_id)
        .with_for_update(key_share=True)
    ).one_or_none()
    if row is None:
        raise NotFound(f"there is no credential {credential_id}")
    changed = dict(values)
    if "inputs" in values:
        inputs = values["inputs"]
        if rules.keeps_stored(inputs) and row.secrets is not None:
            try:
                inputs = rules.laid_over(cipher.decrypt(row.secrets), inputs)
            except SecretsUnreadable as error:
                raise Conflict(str(error), code="secrets_unreadable") from None
        changed |= _sealed(row.kind, inputs, cipher)
    saving.change(connection, CREDENTIAL, credential_id, changed)


def _sealed(kind: str, inputs: object, cipher: Cipher) -> dict[str, Any]:
    """The columns of inputs: what may be read, and the secrets, encrypted."""
    wrong = rules.input_problems(kind, inputs)
    if rules.keeps_stored(inputs):
        wrong = [f"there is no stored secret to keep: {rules.HIDDEN} is what answers show"]
    if wrong:
        raise InvalidRequest({"inputs": wrong})
    assert isinstance(inputs, Mapping)
    readable, secrets = rules.split(kind, inputs)
    return {"inputs": readable, "secrets": cipher.encrypt(secrets) if secrets else None}


def delete_credential(connection: Connection, credential_id: int) -> None:
    """Delete a credential that no template, project or inventory source uses.

    Jobs of it that have not been claimed end as errors that name it.

    Raises:
        NotFound, Conflict: see :func:`saving.remove`.
    """
    saving.remove(connection, CREDENTIAL, credential_id)


def check_kind(connection: Connection, credential_id: object, usable: Collection[str]) -> None:
    """Only what the credential is for may use it.

    Args:
        credential_id: as a caller gave it; what is no id, or of no credential, is refused elsewhere.
        usable: the kinds that may be used.

    Raises:
        InvalidRequest: it is of another kind.
    """
    if credential_id is None or saving.id_problem(credential_id):
        return
    kind = connection.scalar(select(t.credential.c.kind).where(t.credential.c.id == credential_id))
    if kind is not None and kind not in usable:
        words = f"a credential of kind {' or '.join(usable)} is required, not {kind}"
        raise InvalidRequest({"credential": words})


def put_into_template(
    connection: Connection, template_id: int, credential_id: int, member: bool
) -> None:
    """Let jobs of a template use a credential, or no longer.

    Raises:
        InvalidRequest: there is no such credential, or it does not go with the others.
    """
    # locked: of two that are put in at once each could go with the others alone
    connection.execute(
        select(t.job_template.c.id).where(t.job_template.c.id == template_id).with_for_update()
    )
    link = t.job_template_credential
    if member:
        others = set(
            connection.scalars(
                select(link.c.credential_id).where(link.c.job_template_id == template_id)
            )
        )
        problem = credential_rows.problem_of(connection, sorted(others | {credential_id}))
        if problem:
            raise InvalidRequest({"id": problem})
        connection.execute(
            insert(link)
            .values(job_template_id=template_id, credential_id=credential_id)
            .on_conflict_do_nothing()
        )
    else:
        connection.execute(
            delete(link).where(
                link.c.job_template_id == template_id, link.c.credential_id == credential_id
            )
        )
    connection.execute(
        update(t.job_template)
        .where(t.job_template.c.id == template_id)
        .values(modified=func.dispatcher_now())
    )
