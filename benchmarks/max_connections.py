"""Starts that go out while another client holds every connection of the database."""

from __future__ import annotations

import psycopg2

from benchmarks.figures import Figure
from benchmarks.servers import short_directory
from dispatcher import settings as settings_module
from dispatcher.broker.messages import Manager
from dispatcher.db.engine import make_engine
from dispatcher.db.migrate import migrate
from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.embedded.valkey import EmbeddedValkey
from tests.databases import hold_every_connection
from tests.factories import make_node
from tests.passes import changed, make_jobs, runner, submitted

JOBS = 500


def measure() -> list[Figure]:
    """Share of the starts of a pass whose submission is in the node's queue afterwards."""
    hogs: list[psycopg2.extensions.connection] = []
    with short_directory() as directory:
        postgres = EmbeddedPostgres(directory / "postgres", max_connections=20, durable=False)
        valkey = EmbeddedValkey(directory / "valkey", durable=False)
        try:
            settings = settings_module.load(
                database_url=postgres.start(), broker_url=valkey.start(), data_dir=directory
            )
            engine = make_engine(settings, application_name="benchmark")
            migrate(engine)
            with changed(engine) as connection:
                make_node(connection, capacity=2 * JOBS, max_jobs=JOBS)
            # as the managers are when the other client comes: up, with their one connection
            with runner(settings) as running:
                running.trigger(Manager.TASK)
                with changed(engine) as connection:
                    make_jobs(connection, JOBS)
                engine.dispose()
                hold_every_connection(postgres.url("postgres"), hogs)
                running.trigger(Manager.TASK)
                sent = sum(len(pairs) for pairs in submitted(settings, "n1"))
        finally:
            for hog in hogs:
                hog.close()
            valkey.stop()
            postgres.stop()
    words = f"{sent} of {JOBS}, {len(hogs)} connections held by another client"
    return [Figure("submissions_at_max_connections", sent / JOBS, "ratio", words)]
