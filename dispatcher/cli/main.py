"""The ``dispatcher`` command: its sub-commands, and where every expected error becomes one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from dispatcher import __version__
from dispatcher.cli.exit_codes import FAULT, OUTPUT_CLOSED, of_error
from dispatcher.cli.output import OutputClosed, say
from dispatcher.error_text import with_traceback
from dispatcher.errors import DispatcherError

#: First word → the module that registers it, in the order of the help.
COMMANDS = {
    "run": "run",
    "jobs": "jobs",
    "explain": "explain",
    "node": "nodes",
    "token": "tokens",
    "simulate": "simulations",
    "trace": "simulations",
    "up": "up",
    "down": "down",
    "status": "status",
    "migrate": "migrate",
    "migrate-runner-service": "migrate_runner_service",
    "rotate-keys": "rotate_keys",
    "health": "health",
    "doctor": "doctor",
    "api": "roles",
    "beat": "roles",
    "control": "roles",
    "worker": "roles",
}


def make_app(arguments: Sequence[str] = ()) -> typer.Typer:
    """The commands as an application.

    Args:
        arguments: of the command line. When they begin with a command's name only its module is
            imported: all of them together take longer than most commands.
    """
    app = typer.Typer(
        name="dispatcher",
        help="A distributed dispatcher for Ansible. Settings: DISPATCHER_* variables (docs/settings.md).",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    wanted = arguments[0] if arguments else ""
    names = [COMMANDS[wanted]] if wanted in COMMANDS else dict.fromkeys(COMMANDS.values())
    for name in names:
        import_module(f"dispatcher.cli.{name}").register(app)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dispatcher {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options before the command."""


def main() -> None:
    """Run the command line and exit with its code (``dispatcher.cli.exit_codes``)."""
    for stream in (sys.stdout, sys.stderr):
        # a terminal that cannot show a character must not end the command
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        make_app(sys.argv[1:])(prog_name="dispatcher")
    except DispatcherError as error:
        say(" ".join(str(error).split()) or type(error).__name__)
        sys.exit(of_error(error))
    except OutputClosed:
        # the interpreter's own flush at exit must not try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(OUTPUT_CLOSED)
    except Exception as error:
        print(with_traceback(error), file=sys.stderr)
        say("this is a fault of dispatcher itself; please report the lines above")
        sys.exit(FAULT)


if __name__ == "__main__":
    main()
