"""Whatever is sent to v1, the answer is its envelope and never a fault."""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Engine

from dispatcher.api.v1.envelope import CODES
from dispatcher.api.v1.routes import ROUTES
from dispatcher.settings import Settings
from tests.runner_service import UNKNOWN, make_root, serving

PARTS = (
    "..",
    "%2e%2e",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%00",
    "%0a",
    "a%0a",
    "%ff%fe",
    "%ed%a0%80",
    "-x",
    "%20",
    "*",
    "~root",
    "$HOME",
    "{{1}}",
    "a" * 5000,
    "%F0%9F%90%8D",
    "null",
    UNKNOWN,
    "hello.yml",
    "osds",
    "osd1",
    "1-x",
)
BODIES = (
    b"",
    b"{}",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"1e999",
    b"9" * 5000,
    b'{"a": NaN}',
    b'{"a": "\\u0000"}',
    b'{"a": "\\ud800"}',
    b'{"\\u0000": 1}',
    b'{"a": ' + b"[" * 2000 + b"]" * 2000 + b"}",
    b"\xff\xfe",
    b'{"inventory_hostname": 1}',
    b'{"a": "{{ lookup(1) }}"}',
)
TYPES = (
    "application/json",
    "application/json; charset=latin-1",
    "text/plain",
    "",
    "application/jsonx",
)
QUERIES = (
    "",
    "?limit=osd1&check=x",
    "?type=inventory",
    "?port=22&others=,,",
    "?%00=%ff&a",
    "?since=x",
)


@pytest.fixture(scope="module")
def address(v1_settings: Settings, v1_engine: Engine) -> Iterator[str]:
    root = make_root(v1_settings.data_dir / "root")
    with serving(v1_settings, v1_engine, root) as (_, api):
        yield urlsplit(api.url).netloc


@pytest.mark.parametrize(
    "route", ROUTES, ids=lambda route: f"{route.method} {route.template.removeprefix('/api/v1/')}"
)
def test_odd_requests_are_answered_in_the_envelope(address: str, route: object) -> None:
    method, template = route.method, route.template  # type: ignore[attr-defined]
    bodies, types, queries = map(itertools.cycle, (BODIES, TYPES, QUERIES))
    names = [part for part in template.split("/") if part.startswith("{")]
    sent = http.client.HTTPConnection(address, timeout=30)
    # every part in every place, with the ordinary ones beside it and with itself
    for part, beside in itertools.product(PARTS, ("osds", None) if len(names) > 1 else (None,)):
        for place in names or [""]:
            path = template
            for name in names:
                path = path.replace(name, part if name == place else beside or part)
            path += next(queries)
            headers = {"Content-Type": kind} if (kind := next(types)) else {}
            sent.request(method, path, next(bodies), headers)
            answer = sent.getresponse()
            text = answer.read()
            what = f"{method} {path[:200]}: {answer.status} {text[:300]!r}"
            if template in ("/api", "/metrics", "/api/v1/openapi.json"):
                assert answer.status == 200, what
                continue
            body = json.loads(text)
            assert list(body) == ["status", "msg", "data"], what
            assert body["status"] in CODES, what
            assert answer.status < 500, what
    sent.close()


@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS", "HEAD", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/api/v1/", "/api/v1/playbooks", "/api/v1//", "/api/v1/%2e%2e/x"])
def test_odd_methods_are_answered(address: str, method: str, path: str) -> None:
    sent = http.client.HTTPConnection(address, timeout=30)
    sent.request(method, path)
    answer = sent.getresponse()
    text = answer.read()
    assert answer.status in (200, 404, 405)
    if method != "HEAD":
        assert list(json.loads(text)) == ["status", "msg", "data"]
    sent.close()
