"""All routes of v1, in one table; the page about the API is made from it."""

from __future__ import annotations

import json
from html import escape
from typing import Final

from dispatcher import __version__
from dispatcher.api.v1 import events, inventory, metrics, playbooks, runs, variables
from dispatcher.api.v1.call import Call, Route
from dispatcher.api.v1.description import describe
from dispatcher.api.v1.envelope import Answer


def page(call: Call) -> Answer:
    """This page."""
    rows = "".join(
        f"<tr><td>{route.method}</td><td><code>{escape(route.template)}</code></td>"
        f"<td>{escape(route.summary)}. {escape(route.endpoint.__doc__ or '')}</td>"
        f"<td>{escape(', '.join(route.parameters))}</td></tr>\n"
        for route in ROUTES
    )
    text = (
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>Runner service API</title>"
        "<style>body{font-family:sans-serif}td,th{text-align:left;padding:.3em 1em .3em 0}</style>"
        f"</head><body><h1>Runner service API</h1><p>Ansible dispatcher {escape(__version__)}</p>"
        "<table><tr><th>Method</th><th>Path</th><th>What it does</th><th>Parameters</th></tr>\n"
        f"{rows}</table></body></html>\n"
    )
    return Answer(page=(text, "text/html"))


def description(call: Call) -> Answer:
    """The OpenAPI description of this API."""
    return Answer(page=(json.dumps(describe(ROUTES)), "application/json"))


ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/api", page, "The page about the API"),
    Route("GET", "/api/v1/openapi.json", description, "The same for programs"),
    *playbooks.ROUTES,
    *events.ROUTES,
    *runs.ROUTES,
    *inventory.ROUTES,
    *variables.ROUTES,
    *metrics.ROUTES,
)
