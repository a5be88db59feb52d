"""``dispatcher node``: the worker nodes and their room."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher import settings as settings_module
from dispatcher.cli import output
from dispatcher.cli.server import connect

node_app = typer.Typer(help="Look at the worker nodes.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the noun."""
    app.add_typer(node_app, name="node")


@node_app.command("list")
def list_nodes(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every node: its state, its capacity and what is taken of it."""
    with connect(settings_module.load()) as client:
        found = client.nodes()
    if as_json:
        output.print_json([node.raw for node in found])
        return
    output.print_table(
        ("NAME", "STATE", "CAPACITY", "TAKEN", "RUNNING", "LAST SEEN", "VERSION", "TAKES NO JOBS"),
        (
            (
                node.name,
                node.state,
                node.capacity,
                node.consumed,
                node.running,
                node.last_seen[:19],
                node.version,
                node.errors,
            )
            for node in found
        ),
    )
