"""API tokens."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from dispatcher.actions.tokens import any_token, create_token, principal_of
from dispatcher.db.engine import transaction
from dispatcher.errors import InvalidRequest


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
