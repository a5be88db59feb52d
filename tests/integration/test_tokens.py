"""API tokens."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from dispatcher.actions.tokens import (
    any_token,
    create_token,
    list_tokens,
    principal_of,
    revoke_token,
)
from dispatcher.db.engine import transaction
from dispatcher.errors import InvalidRequest, NotFound


def test_a_token_opens_until_it_is_revoked_or_expires(engine: Engine) -> None:
    with transaction(engine) as connection:
        assert not any_token(connection)
        token = create_token(connection, "ci")
        assert any_token(connection)
        assert principal_of(connection, token) == "ci"
        assert principal_of(connection, token[:-1]) is None
        assert principal_of(connection, "dsp_\ud83d") is None
        for column in ("revoked", "expires"):
            connection.execute(text(f"UPDATE api_token SET {column} = dispatcher_now()"))
            assert principal_of(connection, token) is None
            assert not any_token(connection)
            connection.execute(text(f"UPDATE api_token SET {column} = NULL"))
            assert principal_of(connection, token) == "ci"
        connection.execute(text("UPDATE api_token SET expires = dispatcher_now() + '1 hour'"))
        assert principal_of(connection, token) == "ci"


def test_the_token_has_256_bits_and_is_not_stored(engine: Engine) -> None:
    with transaction(engine) as connection:
        token = create_token(connection, "ci")
        assert token.startswith("dsp_")
        assert len(token) == 4 + 43
        row = connection.execute(text("SELECT * FROM api_token")).one()
        assert token not in repr(row)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101])
def test_a_name_that_nobody_could_read_is_refused(engine: Engine, name: str) -> None:
    with transaction(engine) as connection, pytest.raises(InvalidRequest):
        create_token(connection, name)


def test_a_revoked_token_opens_nothing_and_stays_listed(engine: Engine) -> None:
    with transaction(engine) as connection:
        token = create_token(connection, "ci")
        other = create_token(connection, "ci")
    with transaction(engine) as connection:
        first, second = list_tokens(connection)
        revoke_token(connection, first.id)
    with transaction(engine) as connection:
        assert principal_of(connection, token) is None
        assert principal_of(connection, other) == "ci"
        listed = list_tokens(connection)
        assert [(t.id, t.revoked is not None) for t in listed] == [
            (first.id, True),
            (second.id, False),
        ]
        revoke_token(connection, first.id)
        assert list_tokens(connection) == listed


def test_a_token_that_does_not_exist_cannot_be_revoked(engine: Engine) -> None:
    with transaction(engine) as connection, pytest.raises(NotFound, match="no token 7"):
        revoke_token(connection, 7)
