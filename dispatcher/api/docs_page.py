"""``/docs``: the OpenAPI description as one page of HTML, made here.

FastAPI's own page loads its script from elsewhere; this one works where there is no internet, and
needs no script at all. The description itself is at ``/openapi.json`` for any viewer.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:64em;margin:2em auto;padding:0 1em;color:#1d1f21}
h2{margin-top:2.5em;border-bottom:1px solid #ccc}h3{margin-top:2em}
code{font:13px monospace;background:#f3f3f3;padding:1px 4px;border-radius:3px}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:3px 8px;
border-bottom:1px solid #eee}th{font-weight:600}details{margin:.5em 0}summary{cursor:pointer}
.method{display:inline-block;min-width:3.5em;font-weight:700}.token{color:#777;font-size:13px}
"""


def render(description: Mapping[str, Any]) -> str:
    """The page of an OpenAPI description."""
    return "".join(_page(description))


def _page(description: Mapping[str, Any]) -> Iterator[str]:
    title = _text(description["info"]["title"])
    version = _text(description["info"]["version"])
    yield (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title} {version}</h1>"
        f"<p>{_words(description['info'].get('description', ''))}</p>"
        '<p>For programs: <a href="/openapi.json">openapi.json</a></p>'
    )
    by_tag: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = defaultdict(list)
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            by_tag[operation.get("tags", ["other"])[0]].append((path, method, operation))
    for tag in description.get("tags", []):
        yield f"<h2>{_text(tag['name'])}</h2><p>{_words(tag['description'])}</p>"
        for path, method, operation in by_tag[tag["name"]]:
            yield from _operation(path, method, operation)
    yield "<h2>Objects</h2>"
    for name, schema in sorted(description["components"]["schemas"].items()):
        yield from _schema(name, schema)
    yield "</body></html>"


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    token = "" if operation.get("security") else '<span class="token"> — no token needed</span>'
    yield (
        f'<h3><span class="method">{method.upper()}</span> <code>{_text(path)}</code>{token}</h3>'
        f"<p><b>{_text(operation['summary'])}.</b> {_words(operation.get('description', ''))}</p>"
    )
    if parameters := operation.get("parameters"):
        rows = [(f"{p['name']} ({p['in']})", p.get("description", "")) for p in parameters]
        yield f"<details><summary>{len(rows)} parameters</summary>{_table(rows)}</details>"
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield f"<p>Body: {_type(content['schema'])}</p>"
    answers = [
        (code, f"{answer['description']} {_plain_types(answer)}")
        for code, answer in operation["responses"].items()
    ]
    yield f"<details><summary>Answers</summary>{_table(answers)}</details>"


def _plain_types(answer: Mapping[str, Any]) -> str:
    references = (c["schema"].get("$ref", "") for c in answer.get("content", {}).values())
    return " ".join(f"`{r.rsplit('/', 1)[-1]}`" for r in references if r)


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (field, f"{facts.get('description', '')}")
        for field, facts in schema.get("properties", {}).items()
    ]
    yield (
        f'<details id="{_text(name)}"><summary><code>{_text(name)}</code>'
        f" {_words(schema.get('description', ''))}</summary>{_table(rows)}</details>"
    )


def _type(schema: Mapping[str, Any]) -> str:
    name = str(schema.get("$ref", "")).rsplit("/", 1)[-1]
    if not name:
        return _text(str(schema.get("format", schema.get("type", ""))))
    return f'<a href="#{_text(name)}"><code>{_text(name)}</code></a>'


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><th>{_text(a)}</th><td>{_words(b)}</td></tr>" for a, b in rows)
    return f"<table>{cells}</table>"


def _words(text: str) -> str:
    """Escaped, with what stands between backquotes as code."""
    parts = html.escape(text).split("`")
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))


def _text(text: str) -> str:
    return html.escape(text)
