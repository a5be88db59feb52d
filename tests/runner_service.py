"""A root directory as the runner service had it, and a server on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Engine

from dispatcher.settings import Settings
from tests.api_server import Api, in_thread

HELLO = "- hosts: all\n  gather_facts: false\n  tasks:\n  - debug: {msg: hello}\n"
INVENTORY = """\
all:
  children:
    osds:
      hosts:
        osd1: null
        osd2: {ansible_port: 2222}
      vars: {color: red}
    mons:
      hosts: {osd1: null}
"""
UNKNOWN = "71767d64-ecb5-11f1-ad71-02fc00000001"


def make_root(path: Path, files: Mapping[str, str] | None = None) -> Path:
    """A root directory with a playbook, two groups, and further files."""
    given = {"project/hello.yml": HELLO, "inventory/hosts": INVENTORY, **(files or {})}
    for name, text in given.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return path


@contextmanager
def serving(
    settings: Settings, engine: Engine, root: Path | None, **changes: Any
) -> Iterator[tuple[httpx.Client, Api]]:
    """A client without a token, and the server."""
    given = {"v1_root": root, "v1_ssh_checks": False, **changes}
    with in_thread(settings.model_copy(update=given), engine) as api:
        yield api.anonymous, api


def said(answer: httpx.Response) -> tuple[int, str, str, Any]:
    """Code, status, message, data of an answer, which must be an envelope."""
    assert answer.headers["content-type"] == "application/json", answer.text
    assert answer.text.endswith("}\n")
    body = answer.json()
    assert list(body) == ["status", "msg", "data"]
    return answer.status_code, body["status"], body["msg"], body["data"]
