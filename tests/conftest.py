"""Servers and settings for tests: real PostgreSQL and Valkey from the wheels, started once a session.

Everything a session makes is below one directory in /tmp, short enough for sockets and open enough
(0711) for the account that PostgreSQL runs as. What a killed session left there, the next removes.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from sqlalchemy import Engine

from dispatcher import settings as settings_module
from dispatcher.db.engine import make_engine
from dispatcher.db.migrate import migrate
from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.settings import Settings
from tests.databases import Databases

_PREFIX = "dt-"
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Settings of whoever runs the tests are not settings of the tests."""
    for name in [name for name in os.environ if name.startswith(settings_module.PREFIX)]:
        del os.environ[name]
    # a shell starts what it puts into the background with SIGINT ignored, and so would every process
    # of a test be
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # a session that is told to end takes its servers and stacks along; of several processes the
    # first is told, and it interrupts the others
    of_several = hasattr(config, "workerinput")
    signal.signal(signal.SIGTERM, _stay if of_several else _end)


def _end(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, _stay)
    pytest.exit("terminated", returncode=143)


def _stay(number: int, frame: object) -> None:
    """Not SIG_IGN: that would be handed down to every process of a test."""


def _remove_abandoned() -> None:
    """Remove the directories of sessions that were killed: nobody holds their lock."""
    for lock in Path("/tmp").glob(f"{_PREFIX}*/session.lock"):
        try:
            with lock.open("r+b") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue


@pytest.fixture(scope="session")
def session_dir() -> Iterator[Path]:
    """The session's directory; removed at its end, also after failures."""
    _remove_abandoned()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp"))
    directory.chmod(0o711)
    with (directory / "lock-new").open("wb") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        # gets its name when it is locked: another session never finds it free
        (directory / "lock-new").rename(directory / "session.lock")
        yield directory
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(session_dir: Path) -> Iterator[EmbeddedPostgres]:
    """The session's PostgreSQL. A test that stops a server starts one of its own."""
    # nobody: pgbouncer runs as that account when the tests run as root
    server = EmbeddedPostgres(
        session_dir / "postgres", logins=("nobody",), max_connections=300, durable=False
    )
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def valkey(session_dir: Path) -> Iterator[EmbeddedValkey]:
    """The session's Valkey, on a loopback port."""
    server = EmbeddedValkey(session_dir / "valkey", tcp=True, durable=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def databases(postgres: EmbeddedPostgres) -> Iterator[Databases]:
    made = Databases(postgres)
    yield made
    made.close()


@pytest.fixture(scope="session")
def migrated_template(databases: Databases) -> str:
    """A migrated database that the tests' databases are copies of."""
    name = "migrated"
    engine = make_engine(
        settings_module.load(database_url=databases.make(name)), application_name="template"
    )
    migrate(engine)
    engine.dispose()
    return name


@pytest.fixture
def make_database(databases: Databases) -> Iterator[Callable[[str], str]]:
    """A function that makes a database, empty or a copy of a template, and answers its URL."""
    names: list[str] = []

    def make(template: str = "template1") -> str:
        names.append(f"t{next(_numbers)}")
        return databases.make(names[-1], template=template)

    yield make
    for name in names:
        databases.drop(name)


@pytest.fixture
def empty_database_url(make_database: Callable[[], str]) -> str:
    """A database without a schema."""
    return make_database()


@pytest.fixture
def database_url(make_database: Callable[[str], str], migrated_template: str) -> str:
    """A fresh, migrated database."""
    return make_database(migrated_template)


@pytest.fixture
def broker_url(valkey: EmbeddedValkey) -> str:
    """An empty broker: databases in turns, so that what an earlier test left is far away."""
    url = valkey.url(next(_numbers) % 64)
    client = redis.Redis.from_url(url)
    client.flushdb()
    client.close()
    return url


@pytest.fixture
def data_dir(session_dir: Path) -> Iterator[Path]:
    """A short, empty directory that every account can traverse."""
    directory = session_dir / f"d{next(_numbers)}"
    directory.mkdir()
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def settings(database_url: str, broker_url: str, data_dir: Path) -> Settings:
    """Settings of a role that works on the test's own database, broker and directory."""
    return settings_module.load(database_url=database_url, broker_url=broker_url, data_dir=data_dir)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    """A pool of five connections to the test's database."""
    made = make_engine(settings, application_name="test", pool_size=5)
    yield made
    made.dispose()
