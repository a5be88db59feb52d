"""The OpenAPI description of v1, made from the table of its routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from dispatcher import __version__
from dispatcher.api.v1.call import Route
from dispatcher.api.v1.envelope import CODES

_ENVELOPE: Final = {
    "type": "object",
    "description": "Every answer.",
    "properties": {
        "status": {"type": "string", "enum": list(CODES)},
        "msg": {"type": "string"},
        "data": {"type": "object"},
    },
    "required": ["status", "msg", "data"],
    "additionalProperties": False,
}
#: Codes that any route may answer with, beside its own.
_REFUSALS: Final = {
    400: "Something in the request is wrong.",
    401: "Without a token or certificate, or with one that is not valid.",
    403: "Not from this machine.",
    404: "There is no such thing, or it cannot be reached.",
    405: "Another method.",
    409: "Somebody else changes the same.",
    415: "The body is not JSON.",
    503: "The database is away: ask again.",
    504: "A host does not answer.",
}
#: Pages, which are no envelopes.
_PAGES: Final = {
    "/api": "text/html",
    "/metrics": "text/plain",
    "/api/v1/openapi.json": "application/json",
    "/api/v1/runs/{uuid}/stdout": "text/plain",
}


def describe(routes: Iterable[Route]) -> dict[str, Any]:
    """The description."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.template, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Runner service",
            "version": __version__,
            "description": "ansible-runner-service's API, and additions under new names.",
        },
        "paths": paths,
        "components": {"schemas": {"Envelope": _ENVELOPE}},
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "description": " ".join((route.endpoint.__doc__ or "").split()),
        "operationId": f"{route.method.lower()} {route.template}",
        "parameters": [
            *(_parameter(name, "path") for name in re.findall(r"\{(\w+)\}", route.template)),
            # words that stand for any name have a space in them
            *(_parameter(name, "query") for name in route.parameters if " " not in name),
        ],
        "responses": _answers(route),
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": route.body}},
        }
    return operation


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}


def _answers(route: Route) -> dict[str, Any]:
    envelope = {"application/json": {"schema": {"$ref": "#/components/schemas/Envelope"}}}
    page = _PAGES.get(route.template)
    found = envelope if page is None else {page: {"schema": {}}}
    answers = {str(CODES[route.success]): {"description": route.summary, "content": found}}
    for code, words in _REFUSALS.items():
        answers[str(code)] = {"description": words, "content": envelope}
    return answers
