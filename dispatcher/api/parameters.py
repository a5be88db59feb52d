"""Query parameters that a route does not know are refused by name, never passed over."""

from __future__ import annotations

from fastapi import Request

from dispatcher.errors import InvalidRequest


async def refuse_unknown(request: Request) -> None:
    """Refuse what the route's description does not name. Lists check their filters themselves.

    Raises:
        InvalidRequest: unknown parameters, each by name.
    """
    if not request.query_params:
        return
    path = getattr(request.scope.get("route"), "path", "")
    known = request.app.query_parameters(path, request.method.lower())
    if "page_size" in known:
        return
    fields: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        # sent by clients of the dialect to every route; the answers are JSON anyway
        if name not in known and (name, value) != ("format", "json"):
            fields[name] = "unknown parameter"
    if fields:
        raise InvalidRequest(fields)
