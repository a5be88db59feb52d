"""Reading server-sent events in tests, the way a browser's EventSource does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Message:
    """One event of a stream; ``id`` only where it has one of its own."""

    event: str
    data: dict[str, Any]
    id: str | None = None


def read(lines: Iterator[str]) -> Iterator[Message | str]:
    """Messages, and comments as plain text."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                yield Message(
                    fields.get("event", "message"), json.loads(fields["data"]), fields.get("id")
                )
            fields = {}
        elif line.startswith(":"):
            yield line
        else:
            name, _, value = line.partition(": ")
            assert name not in fields, "one line of each kind is enough"
            fields[name] = value


@contextmanager
def following(
    http: httpx.Client, job: int, last: int | None = None
) -> Iterator[Iterator[Message | str]]:
    """A stream of a job; closed, wherever it is, when the block ends."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    with http.stream("GET", f"/api/v2/jobs/{job}/stream/", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield read(answer.iter_lines())
