"""``dispatcher doctor``: what is wrong with a cluster, seen from this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from dispatcher import __version__, logs
from dispatcher import settings as settings_module
from dispatcher.broker.celery_app import make_app
from dispatcher.broker.publish import Publisher
from dispatcher.cli.databases import engine_of, with_servers
from dispatcher.cli.output import print_json, print_table
from dispatcher.db import diagnosis_rows
from dispatcher.db.clock_difference import measure_clock
from dispatcher.db.engine import is_away, transaction
from dispatcher.db.schema_check import check_schema
from dispatcher.domain import diagnosis
from dispatcher.domain.diagnosis import Finding, Level
from dispatcher.error_text import in_short
from dispatcher.errors import ConfigurationError, SchemaError
from dispatcher.secrets import read_keys
from dispatcher.settings import Settings

_FAULTY = 1


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Look for what is wrong: database, broker, clock, keys, nodes, lost runs; exit 1 on an error.

    It asks the servers directly, so it works while the API does not. Run it on each machine: clock,
    key file and run directories are those of the machine it runs on.
    """
    settings = with_servers(settings_module.load())
    # why the broker does not answer is in the log
    logs.configure(settings, role="doctor")
    findings = list(examine(settings))
    if as_json:
        print_json(
            [
                {"level": f.level.name.lower(), "subject": f.subject, "words": f.words}
                for f in findings
            ]
        )
    else:
        print_table(
            ("", "SUBJECT", "FOUND"),
            [(f.level.name.lower(), f.subject, f.words) for f in findings],
        )
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(_FAULTY)


def examine(settings: Settings) -> Iterator[Finding]:
    """Everything that is looked at, with what was found.

    Args:
        settings: with both servers' URLs.
    """
    yield from _database(settings)
    yield _broker(settings)
    yield _keys(settings)


def _database(settings: Settings) -> Iterator[Finding]:
    with engine_of(settings) as engine:
        try:
            with transaction(engine) as connection:
                yield from diagnosis.check_database(diagnosis_rows.database_facts(connection))
                try:
                    check_schema(connection)
                except SchemaError as error:
                    yield Finding(Level.ERROR, "schema", str(error))
                    return
                yield Finding(Level.OK, "schema", "fits this package")
                yield diagnosis.check_clock(measure_clock(connection))
                nodes = diagnosis_rows.node_facts(connection)
                yield from diagnosis.check_nodes(nodes, __version__)
                waiting = diagnosis_rows.waiting_long(connection, diagnosis.WAITING_LONG)
                # a node has the data directory to itself, or one of its own beside a stack
                places = [settings.data_dir, *sorted(settings.data_dir.glob("nodes/*"))]
                lost = diagnosis_rows.lost_runs(connection, places)
                yield from diagnosis.check_jobs(waiting, lost)
        except Exception as error:
            if not is_away(error):
                raise
            yield Finding(Level.ERROR, "database", in_short(error))


def _broker(settings: Settings) -> Finding:
    if Publisher(make_app(settings, profile="publisher")).warm():
        return Finding(Level.OK, "broker", "answers")
    return Finding(Level.ERROR, "broker", "does not answer; jobs are accepted and start later")


def _keys(settings: Settings) -> Finding:
    file = settings.key_file or settings.data_dir / "cluster.key"
    try:
        keys = read_keys(file)
    except ConfigurationError as error:
        return Finding(Level.ERROR, "key file", str(error))
    if file.stat().st_mode & 0o077:
        return Finding(Level.ERROR, "key file", f"{file} can be read by others: chmod 600 {file}")
    return Finding(Level.OK, "key file", f"{len(keys)} keys in {file}")
