"""Servers for tests of the API: one for each test, or one for a module whose tests only read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import Engine

from dispatcher import settings as settings_module
from dispatcher.db.engine import make_engine
from dispatcher.settings import Settings
from tests.api_server import Api, in_thread


@pytest.fixture
def api(settings: Settings, engine: Engine) -> Iterator[Api]:
    """A server on the test's own database and broker."""
    with in_thread(settings, engine) as running:
        yield running


@pytest.fixture(scope="module")
def v1_settings(
    databases: Any, migrated_template: str, valkey: Any, session_dir: Path
) -> Iterator[Settings]:
    """A database for all tests of a module, and the directory of the servers on it."""
    directory = Path(tempfile.mkdtemp(dir=session_dir))
    name = f"v1_{directory.name.lower()}"
    yield settings_module.load(
        database_url=databases.make(name, template=migrated_template),
        broker_url=valkey.url(0),
        data_dir=directory,
    )
    databases.drop(name)


@pytest.fixture(scope="module")
def v1_engine(v1_settings: Settings) -> Iterator[Engine]:
    engine = make_engine(v1_settings, application_name="test", pool_size=5)
    yield engine
    engine.dispose()


@dataclass
class Shared:
    """A server, and the database behind it, that all tests of a module use."""

    api: Api
    engine: Engine


@pytest.fixture(scope="module")
def shared(
    databases: Any, migrated_template: str, valkey: Any, session_dir: Path
) -> Iterator[Shared]:
    """For tests that look at what one fixture has stored, or at what is refused."""
    directory = Path(tempfile.mkdtemp(dir=session_dir))
    name = f"shared_{directory.name.lower()}"
    settings = settings_module.load(
        database_url=databases.make(name, template=migrated_template),
        broker_url=valkey.url(0),
        data_dir=directory,
    )
    engine = make_engine(settings, application_name="test", pool_size=5)
    with in_thread(settings, engine) as running:
        yield Shared(running, engine)
    engine.dispose()
    databases.drop(name)


def woken(broker_url: str) -> set[str]:
    """The managers for whom a wake-up is in the broker."""
    with redis.Redis.from_url(broker_url) as broker:
        keys = [key.decode() for key in broker.scan_iter(match="*schedulers.*")]
        found = [k.rsplit("schedulers.", 1)[1] for k in keys if broker.type(k) == b"list"]
    return set(found)
