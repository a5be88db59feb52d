"""What benchmarks run on: an embedded PostgreSQL, or a whole stack, in a directory of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, text

from dispatcher import settings as settings_module
from dispatcher.broker.messages import Manager
from dispatcher.db.engine import make_engine
from dispatcher.db.migrate import migrate
from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.settings import Settings
from schedulers.passes.manager_pass import Runner
from schedulers.passes.works import make_runner
from tests.roles import role
from tests.tcp_proxy import in_front_of
from tests.waiting import wait_until


@contextmanager
def short_directory() -> Iterator[Path]:
    """A directory that PostgreSQL's account can enter, removed at the end."""
    path = Path(tempfile.mkdtemp(prefix="db-", dir="/tmp"))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def database() -> Iterator[Engine]:
    """A migrated, durable database on a server of its own."""
    with short_directory() as directory:
        server = EmbeddedPostgres(directory / "postgres")
        settings = settings_module.load(database_url=server.start(), data_dir=directory)
        engine = make_engine(settings, application_name="benchmark", pool_size=4)
        try:
            migrate(engine)
            yield engine
        finally:
            engine.dispose()
            server.stop()


@contextmanager
def managers(delay: float = 0.0) -> Iterator[tuple[Engine, Runner]]:
    """A migrated, durable database and a broker, with a runner of managers as control has it.

    Args:
        delay: seconds that are added to every query of the runner.
    """
    with servers() as (engine, settings), far(settings, delay) as distant:
        runner = make_runner(distant, name="benchmark runner")
        yield engine, runner
        runner.engine.dispose()


@contextmanager
def far(settings: Settings, delay: float) -> Iterator[Settings]:
    """The settings with a database to which each query takes so many seconds more."""
    if not delay:
        yield settings
        return
    assert settings.database_url is not None
    proxy, url = in_front_of(settings.database_url)
    with proxy:
        proxy.delay = delay / 2  # on the way there, and on the way back
        yield settings.model_copy(update={"database_url": url})


@contextmanager
def servers() -> Iterator[tuple[Engine, Settings]]:
    """A migrated, durable database and a broker, for roles that are started with the settings."""
    with short_directory() as directory:
        postgres = EmbeddedPostgres(directory / "postgres")
        valkey = EmbeddedValkey(directory / "valkey")
        settings = settings_module.load(
            database_url=postgres.start(), broker_url=valkey.start(), data_dir=directory / "data"
        )
        settings.data_dir.mkdir()
        engine = make_engine(settings, application_name="benchmark", pool_size=12)
        try:
            migrate(engine)
            yield engine, settings
        finally:
            engine.dispose()
            valkey.stop()
            postgres.stop()


@contextmanager
def control(delay: float = 0.0) -> Iterator[tuple[Engine, Settings]]:
    """The same, with control and beat as processes.

    Args:
        delay: seconds that are added to every query of those processes, and of others that are
            started with the settings.
    """
    with (
        servers() as (engine, settings),
        far(settings, delay) as distant,
        role(distant, "control"),
        role(distant, "beat"),
    ):
        wait_until(lambda: has_passed(engine), timeout=60, what="control runs managers")
        yield engine, distant


def has_passed(engine: Engine) -> bool:
    """Whether control has run each manager once."""
    with engine.connect() as connection:
        found = connection.execute(text("SELECT count(last_pass_at) FROM manager_lease"))
        return int(found.scalar_one()) >= len(Manager)
