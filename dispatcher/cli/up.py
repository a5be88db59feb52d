"""``dispatcher up``: everything on this machine, in the foreground or in the background."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from dispatcher import settings as settings_module
from dispatcher.cli.output import say
from dispatcher.embedded.background import start_in_background


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(up)


def up(
    detach: Annotated[
        bool, typer.Option("--detach", help="Go on in the background; return when it is ready.")
    ] = False,
    host: Annotated[str | None, typer.Option(help="Address the API listens on.")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help="Port of the API; default the first free one from 8052; 0: any free one."
        ),
    ] = None,
    v1_port: Annotated[
        int | None, typer.Option(help="A further port, for clients of the old runner service.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the stack's node; default the host name.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Directory of everything it keeps.")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="TOML file with settings.")
    ] = None,
) -> None:
    """Run PostgreSQL, Valkey, api, beat, control and a worker on this machine.

    With DISPATCHER_DATABASE_URL or DISPATCHER_BROKER_URL set, that server is used instead of an
    embedded one. Ctrl-C stops everything; running playbooks are canceled.
    """
    settings = settings_module.load(
        config_file=config,
        api_host=host,
        api_port=port,
        v1_port=v1_port,
        node_name=name,
        data_dir=data_dir,
    )
    # a working directory that changes must not move the data
    settings = settings.model_copy(update={"data_dir": settings.data_dir.absolute()})
    if detach:
        state = start_in_background(settings)
        say(f"ready: API at {state.api_url}, token in {state.token_file} (pid {state.up.pid})")
    else:
        # the half of the imports that waiting for a background process does not need
        import_module("dispatcher.embedded.stack").Stack(settings, say=say).run()
