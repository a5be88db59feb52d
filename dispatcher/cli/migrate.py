"""``dispatcher migrate``: a database brought up to date, and what a first start needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from dispatcher import settings as settings_module
from dispatcher.actions.tokens import any_token, create_token
from dispatcher.cli.databases import engine_of, with_servers
from dispatcher.cli.output import say
from dispatcher.db.engine import transaction, unavailable_when_away
from dispatcher.db.migrate import migrate as migrate_database
from dispatcher.errors import ConfigurationError
from dispatcher.secrets import make_key_file


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(migrate)


def migrate(
    key: Annotated[
        bool, typer.Option("--key", help="Make the cluster's key file too, when there is none.")
    ] = False,
    first_token: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a token to this file when the database has none yet."
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for another migration under way.")
    ] = 120.0,
) -> None:
    """Bring the database's schema up to date; safe to run on several machines at once."""
    settings = with_servers(settings_module.load())
    with engine_of(settings) as engine, unavailable_when_away():
        steps = migrate_database(engine, wait=wait)
        say(f"schema: {' → '.join(steps)}" if len(steps) > 1 else f"schema: {steps[0]}, up to date")
        if key:
            file = settings.key_file or settings.data_dir / "cluster.key"
            say(f"key file: {file} {_made(file)}")
        if first_token is not None:
            with transaction(engine) as connection:
                if any_token(connection):
                    say("token: there is one already")
                else:
                    _write_private(first_token, create_token(connection, "first"))
                    say(f"token: written to {first_token}")


def _made(file: Path) -> str:
    if file.exists():
        return "is there already"
    file.parent.mkdir(parents=True, exist_ok=True)
    make_key_file(file)
    return "made"


def _write_private(file: Path, text: str) -> None:
    """Write for the owner only, durably: the token is committed after this and shown nowhere else."""
    try:
        file.unlink(missing_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w") as out:
            out.write(f"{text}\n")
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from None
