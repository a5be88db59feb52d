"""Every field of every body takes an odd value or refuses it by name; nothing is a fault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api_server import Api, filled, smallest_body
from tests.integration.api.conftest import Shared
from tests.templates import make_inventory, make_one_of_each, make_template
from tests.workflows import make_workflow_objects

ODD = (
    "\x00",
    "\ud800",
    "x" * 100_001,
    "-é\n",
    10**30,
    -1,
    True,
    None,
    [10**30],
    {"a": 10**4000, "b\x00": 1},
)
#: Answered in their own tests, or with values that are no fields of JSON.
ELSEWHERE = ("/api/v2/runs/", "/api/v2/content/")


@pytest.fixture(scope="module")
def ids(shared: Shared) -> dict[str, int]:
    """An object of each kind."""
    with shared.engine.begin() as connection:
        ids = make_one_of_each(connection)
        asks = {f"ask_{name}_on_launch": True for name in ("inventory", "limit", "variables")}
        inventory = make_inventory(connection, ["a"])
        template = make_template(connection, ids["projects"], inventory, **asks)
        return {**ids, **make_workflow_objects(connection, template)}


def _bodies(api: Api, ids: dict[str, int]) -> Iterator[tuple[str, str, dict[str, Any], list[str]]]:
    """(method, path, required fields, all fields) of each operation that takes JSON."""
    description = api.http.get("/openapi.json").json()
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            if method == "put" and "patch" in operations:
                continue  # the same fields
            schema = (
                operation.get("requestBody", {})
                .get("content", {})
                .get("application/json", {})
                .get("schema", {})
            )
            for part in schema.get("anyOf", [schema]):
                if "$ref" in part and not path.startswith(ELSEWHERE):
                    name = part["$ref"].rsplit("/", 1)[-1]
                    fields = description["components"]["schemas"][name]["properties"]
                    required = smallest_body(description, operation) or {}
                    yield method, filled(path, ids), required, sorted(fields)


def test_no_value_of_any_field_is_a_fault(shared: Shared, ids: dict[str, int]) -> None:
    wrong = []
    asked = 0
    for method, path, required, fields in _bodies(shared.api, ids):
        for field in fields:
            for value in ODD:
                answer = shared.api.http.request(
                    method,
                    path,
                    content=json.dumps({**required, field: value}),
                    headers={"Content-Type": "application/json"},
                )
                asked += 1
                named = answer.status_code != 400 or "detail" not in answer.json()
                if answer.status_code >= 500 or not named:
                    wrong.append((method, path, field, str(value)[:20], answer.text[:200]))
    assert wrong == []
    assert asked > 1_000
