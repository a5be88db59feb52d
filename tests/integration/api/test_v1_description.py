"""v1's OpenAPI description, and whatever schemathesis makes of it: never a fault, always the envelope."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.config import OutputConfig, SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from sqlalchemy import Engine

from dispatcher.api.v1.description import describe
from dispatcher.api.v1.envelope import CODES
from dispatcher.api.v1.routes import ROUTES
from dispatcher.settings import Settings
from tests.runner_service import make_root, serving

DESCRIPTION = describe(ROUTES)
SCHEMA = schemathesis.openapi.from_dict(
    DESCRIPTION, config=SchemathesisConfig(output=OutputConfig())
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def v1(v1_settings: Settings, v1_engine: Engine) -> Iterator[httpx.Client]:
    root = make_root(v1_settings.data_dir / "root")
    with serving(v1_settings, v1_engine, root) as (http, _):
        yield http


@SCHEMA.parametrize()
@settings(
    max_examples=20,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_generated_requests_are_answered_as_described(case: Any, v1: httpx.Client) -> None:
    answer = case.call(base_url=str(v1.base_url))
    case.validate_response(answer, checks=CHECKS)
    if answer.headers["content-type"] == "application/json" and "openapi" not in case.path:
        body = answer.json()
        assert list(body) == ["status", "msg", "data"]
        assert CODES[body["status"]] == answer.status_code or answer.status_code == 405


def test_every_route_is_described_with_its_parameters(v1: httpx.Client) -> None:
    answer = v1.get("/api/v1/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()["paths"]
    assert found == DESCRIPTION["paths"]
    assert [(p, m.upper()) for p, operations in found.items() for m in operations] == [
        (template, route.method)
        for template, group in itertools.groupby(_in_order(), lambda route: route.template)
        for route in group
    ]
    for route in ROUTES:
        operation = found[route.template][route.method.lower()]
        named = {p["name"] for p in operation["parameters"]}
        assert {name for name in route.parameters if " " not in name} <= named
        assert operation["description"]


def _in_order() -> list[Any]:
    first = {}
    for number, route in enumerate(ROUTES):
        first.setdefault(route.template, number)
    return sorted(ROUTES, key=lambda route: first[route.template])
