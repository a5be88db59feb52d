"""A server, a node that the test acts itself, and a small project."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from dispatcher.settings import Settings
from tests.acting_node import ActingNode
from tests.api_server import Api, in_thread


@pytest.fixture
def api(settings: Settings, engine: Engine) -> Iterator[Api]:
    with in_thread(settings, engine) as running:
        yield running


@pytest.fixture
def server(api: Api) -> dict[str, str]:
    return {"DISPATCHER_URL": api.url, "DISPATCHER_TOKEN": api.token}


@pytest.fixture
def node(engine: Engine) -> ActingNode:
    return ActingNode(engine)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "site.yml").write_text("- hosts: all\n")
    (tmp_path / "hosts.ini").write_text("[web]\nweb1\nweb2\n")
    return tmp_path
