"""The API's description: complete, and the same as docs/api.md and the map of the resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.api import docs_page
from dispatcher.api.app import create_app
from dispatcher.api.v2.root import RESOURCES
from dispatcher.secrets import make_key_file
from dispatcher.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("api")
    make_key_file(directory / "cluster.key")
    settings = Settings(
        database_url="postgresql://nobody@127.0.0.1:1/none",
        broker_url="redis://127.0.0.1:1/0",
        data_dir=directory,
    )
    return create_app(settings).openapi()


def _operations(description: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_operation_says_what_it_does(description: dict[str, Any]) -> None:
    known = {tag["name"] for tag in description["tags"]}
    for path, method, operation in _operations(description):
        where = f"{method} {path}"
        assert operation["summary"], where
        assert operation["description"], where
        assert len(operation["tags"]) == 1, where
        assert operation["tags"][0] in known, where
        # 422 is never answered
        assert "422" not in operation["responses"], where


def test_every_parameter_has_a_description(description: dict[str, Any]) -> None:
    for path, method, operation in _operations(description):
        names = [(p["in"], p["name"]) for p in operation.get("parameters", ())]
        assert len(names) == len(set(names)), (method, path)
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (method, path, parameter["name"])


def test_every_field_has_a_description(description: dict[str, Any]) -> None:
    for name, schema in description["components"]["schemas"].items():
        assert schema.get("description"), name
        for field, facts in schema.get("properties", {}).items():
            assert facts.get("description"), f"{name}.{field}"


def test_every_answer_and_body_has_a_form(description: dict[str, Any]) -> None:
    for path, method, operation in _operations(description):
        for code, answer in operation["responses"].items():
            assert answer["description"], (method, path, code)
            if code.startswith("2"):
                assert (code == "204") == ("content" not in answer), (method, path)
                for content in answer.get("content", {}).values():
                    assert content["schema"], (method, path, code)


def test_what_needs_a_token_says_so(description: dict[str, Any]) -> None:
    without = {path for path, _, op in _operations(description) if not op.get("security")}
    assert without == {"/healthz", "/readyz", "/metrics", "/api/", "/api/v2/", "/api/v2/ping/"}


def test_the_map_of_the_resources_is_that_of_the_routes(description: dict[str, Any]) -> None:
    first = {m[1] for path in description["paths"] if (m := re.match(r"/api/v2/(\w+)/", path))}
    assert first == set(RESOURCES)
    assert list(RESOURCES) == sorted(RESOURCES)


def test_the_documented_routes_are_the_applications(description: dict[str, Any]) -> None:
    documented = set(
        re.findall(r"^\| `(GET|POST|PUT|PATCH|DELETE) (\S+)` \|", PAGE.read_text(), re.MULTILINE)
    )
    routes = {(method.upper(), path) for path, method, _ in _operations(description)}
    assert documented == routes | {("GET", "/docs"), ("GET", "/openapi.json")}


def test_the_page_shows_every_route_field_and_parameter(description: dict[str, Any]) -> None:
    page = docs_page.render(description)
    for path, _, operation in _operations(description):
        assert f"<code>{path}</code>" in page
        for parameter in operation.get("parameters", ()):
            assert f"<th>{parameter['name']} ({parameter['in']})</th>" in page
    for schema in description["components"]["schemas"].values():
        for field in schema.get("properties", {}):
            assert f"<th>{field}</th>" in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=\"?(https?:)?//", page)
