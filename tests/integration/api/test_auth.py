"""Who may call what."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests.api_server import Api, filled, smallest_body
from tests.integration.api.conftest import Shared

PUBLIC = {"/healthz", "/readyz", "/metrics", "/api/", "/api/v2/", "/api/v2/ping/"}


def _calls(api: Api) -> list[tuple[str, str, dict[str, Any] | None]]:
    description = api.anonymous.get("/openapi.json").json()
    return [
        (method.upper(), filled(path), smallest_body(description, operation))
        for path, found in description["paths"].items()
        for method, operation in found.items()
    ]


def test_every_route_but_the_public_ones_wants_a_token(shared: Shared) -> None:
    api = shared.api
    for method, path, _ in _calls(api):
        answer = api.anonymous.request(method, path)
        if path in PUBLIC:
            assert answer.status_code == 200, path
            continue
        assert answer.status_code == 401, (method, path, answer.text)
        assert answer.json() == {"detail": "Authentication credentials were not provided."}
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_every_route_but_the_public_ones_refuses_a_wrong_token(shared: Shared) -> None:
    api = shared.api
    for method, path, body in _calls(api):
        answer = api.anonymous.request(
            method, path, json=body, headers={"Authorization": "Bearer dsp_wrong"}
        )
        assert answer.status_code == (200 if path in PUBLIC else 401), (method, path, answer.text)


def test_other_credentials_are_no_token(shared: Shared) -> None:
    basic = "Basic " + base64.b64encode(b"admin:password").decode()
    for header in (basic, "Bearer", "Token dsp_x", "dsp_x", "Bearer \xff\xfe", "Bearer x y"):
        answer = shared.api.anonymous.get(
            "/api/v2/jobs/", headers=[(b"Authorization", header.encode("latin-1"))]
        )
        assert answer.status_code == 401, header
        assert set(answer.json()) == {"detail"}


@pytest.mark.parametrize("column", ["revoked", "expires"])
def test_a_token_that_is_revoked_or_expired_is_dead_at_once(
    api: Api, engine: Engine, column: str
) -> None:
    assert api.http.get("/api/v2/jobs/").status_code == 200
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE api_token SET {column} = dispatcher_now()"))
    assert api.http.get("/api/v2/jobs/").status_code == 401


def test_documentation_needs_no_token_and_nothing_from_elsewhere(shared: Shared) -> None:
    api = shared.api
    page = api.anonymous.get("/docs")
    assert page.status_code == 200
    assert "/api/v2/jobs/{job_id}/stream/" in page.text
    assert "<script" not in page.text
    assert "https://" not in page.text
