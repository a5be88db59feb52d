"""What launches and nodes read of credentials, and what a launch writes down of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, text

from dispatcher.db.tables import job_credential
from dispatcher.domain.credential import OF_PLAYBOOKS, together_problem


@dataclass(frozen=True)
class CredentialHead:
    """A credential without its secrets.

    Attributes:
        inputs: as answers show them.
    """

    id: int
    name: str
    kind: str
    inputs: Mapping[str, Any]


@dataclass(frozen=True)
class JobCredential:
    """A credential that a job was launched with.

    Attributes:
        name: what it was called then.
        kind: None: it was deleted since.
        secrets: encrypted.
    """

    id: int
    name: str
    kind: str | None
    inputs: Mapping[str, Any]
    secrets: bytes | None


def read_heads(connection: Connection, ids: Collection[int]) -> dict[int, CredentialHead]:
    """Credentials by id."""
    if not ids:
        return {}
    rows = connection.execute(
        text(
            "SELECT id, name, kind, inputs FROM credential WHERE id = ANY(CAST(:ids AS bigint[]))"
        ),
        {"ids": list(ids)},
    )
    return {row.id: CredentialHead(*row) for row in rows}


def chosen_problem(heads: Mapping[int, CredentialHead], chosen: Sequence[int]) -> str | None:
    """Why a playbook cannot be run with these credentials."""
    for each in chosen:
        if each not in heads:
            return f"there is no credential {each}"
    found = [heads[each] for each in chosen]
    return together_problem([(c.kind, c.name, c.inputs) for c in found], usable=OF_PLAYBOOKS)


def problem_of(connection: Connection, chosen: Sequence[int]) -> str | None:
    """:func:`chosen_problem` of credentials as they are stored."""
    return chosen_problem(read_heads(connection, chosen), chosen)


def note_credentials(connection: Connection, links: Iterable[tuple[int, int, str]]) -> None:
    """Write down what jobs are launched with: (job, credential, its name)."""
    rows = [{"job_id": j, "credential_id": c, "name": name} for j, c, name in links]
    if rows:
        connection.execute(insert(job_credential), rows)


def credentials_of(connection: Connection, job_id: int) -> list[int]:
    """Numbers of the credentials that a job was launched with."""
    found = connection.scalars(
        text("SELECT credential_id FROM job_credential WHERE job_id = :job ORDER BY credential_id"),
        {"job": job_id},
    )
    return list(found)


def read_job_credentials(connection: Connection, job_id: int) -> list[JobCredential]:
    """What a node decrypts for a job, as it is at this moment."""
    rows = connection.execute(
        text(
            "SELECT credential_id, coalesce(credential.name, job_credential.name), kind, inputs,"
            " secrets FROM job_credential LEFT JOIN credential ON credential.id = credential_id"
            " WHERE job_id = :job ORDER BY credential_id"
        ),
        {"job": job_id},
    )
    return [
        JobCredential(
            row[0], row[1], row[2], row[3] or {}, None if row[4] is None else bytes(row[4])
        )
        for row in rows
    ]
