"""API tokens: 256 random bits, stored as their SHA-256 only."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, insert, text

from dispatcher.db import tables as t
from dispatcher.domain.text import has_control
from dispatcher.errors import InvalidRequest, NotFound

PREFIX: Final = "dsp_"
_LONGEST_NAME: Final = 100


def create_token(connection: Connection, name: str) -> str:
    """Make a token; it is shown here once and cannot be read again.

    Args:
        name: who it is for. Tokens of one name are one principal, so that a token can be replaced
            without losing that principal's idempotency keys.

    Raises:
        InvalidRequest: the name is empty, too long or has control characters.
    """
    if not name.strip() or len(name) > _LONGEST_NAME or has_control(name):
        raise InvalidRequest({"name": f"1 to {_LONGEST_NAME} characters, no control characters"})
    token = PREFIX + secrets.token_urlsafe(32)
    connection.execute(insert(t.api_token).values(name=name, token_sha256=_digest(token)))
    return token


def principal_of(connection: Connection, token: str) -> str | None:
    """The name behind a token; None when it is unknown, revoked or expired."""
    name: str | None = connection.scalar(
        text(
            "SELECT name FROM api_token WHERE token_sha256 = :digest AND revoked IS NULL"
            " AND (expires IS NULL OR expires > dispatcher_now())"
        ),
        {"digest": _digest(token)},
    )
    return name


def any_token(connection: Connection) -> bool:
    """Whether a token exists that opens the API."""
    return bool(
        connection.scalar(
            text(
                "SELECT EXISTS (SELECT 1 FROM api_token WHERE revoked IS NULL"
                " AND (expires IS NULL OR expires > dispatcher_now()))"
            )
        )
    )


@dataclass(frozen=True)
class StoredToken:
    """All that is known of a token."""

    id: int
    name: str
    created: datetime
    expires: datetime | None
    revoked: datetime | None


def list_tokens(connection: Connection) -> list[StoredToken]:
    """Every token, oldest first, revoked and expired ones too."""
    rows = connection.execute(
        text("SELECT id, name, created, expires, revoked FROM api_token ORDER BY id")
    )
    return [StoredToken(*row) for row in rows]


def revoke_token(connection: Connection, token_id: int) -> None:
    """Make a token invalid from this commit on; a revoked one stays as it is.

    Raises:
        NotFound: there is no token with this number.
    """
    changed = connection.execute(
        text("UPDATE api_token SET revoked = coalesce(revoked, dispatcher_now()) WHERE id = :id"),
        {"id": token_id},
    )
    if not changed.rowcount:
        raise NotFound(f"no token {token_id}")


def _digest(token: str) -> bytes:
    # Any header can arrive here, half a surrogate pair too: it is looked up like every other.
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
