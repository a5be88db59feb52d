"""An agent for all tests of a module of updates; its key opens a real SSH server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.db.engine import make_engine
from dispatcher.embedded.valkey import EmbeddedValkey
from examples.host_install.ssh_hosts import SshHost
from tests.databases import Databases
from tests.nodes import NodeUnderTest, agent_alone
from tests.updates import Updates


@pytest.fixture(scope="module")
def node(
    databases: Databases,
    migrated_template: str,
    valkey: EmbeddedValkey,
    session_dir: Path,
    ssh_host: SshHost,
) -> Iterator[NodeUnderTest]:
    yield from agent_alone(
        "updates",
        databases,
        migrated_template,
        valkey,
        session_dir,
        scm_key_file=ssh_host.key_file,
    )


@pytest.fixture
def updates(node: NodeUnderTest) -> Iterator[Updates]:
    engine = make_engine(node.settings, application_name="test", pool_size=5)
    yield Updates(node, engine)
    engine.dispose()
