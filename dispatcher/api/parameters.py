"""Query parameters that a route does not know are refused by name, never passed over."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request

from dispatcher.errors import InvalidRequest


async def refuse_unknown(request: Request) -> None:
    """Refuse what the route's description does not name. Lists check their filters themselves.

    Raises:
        InvalidRequest: unknown parameters, each by name.
    """
    if not request.query_params:
        return
    path = getattr(request.scope.get("route"), "path", "")
    known = _known(request.app, path, request.method.lower())
    if "page_size" in known:
        return
    fields: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        # sent by clients of the dialect to every route; the answers are JSON anyway
        if name not in known and (name, value) != ("format", "json"):
            fields[name] = "unknown parameter"
    if fields:
        raise InvalidRequest(fields)


def _known(app: FastAPI, path: str, method: str) -> frozenset[str]:
    operation: dict[str, Any] = app.openapi()["paths"].get(path, {}).get(method, {})
    return frozenset(p["name"] for p in operation.get("parameters", ()) if p["in"] == "query")
