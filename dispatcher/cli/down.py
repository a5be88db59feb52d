"""``dispatcher down``: stops what ``dispatcher up`` started."""

from __future__ import annotations

import typer

from dispatcher import settings as settings_module
from dispatcher.cli.output import say
from dispatcher.embedded.background import stop_stack


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(down)


def down() -> None:
    """Stop the embedded stack of this data directory; running playbooks are canceled."""
    data_dir = settings_module.load().data_dir.absolute()
    say("stopped" if stop_stack(data_dir) else f"nothing runs on {data_dir}")
