"""``dispatcher node``: the worker nodes, their room, and whether they take jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from dispatcher import clock
from dispatcher import settings as settings_module
from dispatcher.cli import output
from dispatcher.cli.server import connect
from dispatcher.client.answers import DrainState

node_app = typer.Typer(
    help="Look at the worker nodes; take one out of use, and back.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="Name of the node.")]

#: Seconds between two looks at a node that is drained.
_LOOK_EVERY = 2.0


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


@node_app.command()
def enable(name: Name) -> None:
    """Let a node take jobs again, whether it was disabled or drained."""
    with connect(settings_module.load()) as client:
        node = client.change_node(client.node(name).id, enabled=True, draining=False)
    output.say(f"node {name}: enabled" + (f", but {node.errors}" if node.errors else ""))


@node_app.command()
def disable(name: Name) -> None:
    """Start no more jobs on a node. What runs goes on."""
    with connect(settings_module.load()) as client:
        client.change_node(client.node(name).id, enabled=False)
    output.say(f"node {name}: disabled")


@node_app.command()
def drain(
    name: Name,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until nothing runs there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Empty a node: no more jobs are started on it; show what still runs."""
    with connect(settings_module.load()) as client:
        node = client.node(name)
        state = client.drain(node.id)
        if not as_json:
            _show(name, state)
        while wait and state.jobs:
            clock.sleep(_LOOK_EVERY)
            state = client.drain_state(node.id)
            if not state.draining:
                output.say(f"node {name}: the drain was ended by somebody else")
                raise typer.Exit(1)
    if as_json:
        output.print_json(state.raw)
    elif wait or not state.jobs:
        output.say(f"node {name}: drained")


def _show(name: str, state: DrainState) -> None:
    output.say(f"node {name}: takes no more jobs; {len(state.jobs)} still there")
    if state.jobs:
        headings = ("JOB", "NAME", "STATUS", "SINCE", "EXPECTED END")
        output.print_table(headings, _rows(state))


def _rows(state: DrainState) -> Iterator[tuple[object, ...]]:
    for job in state.jobs:
        yield job.id, job.name, job.status, job.started[:19], job.expected_end[:19] or "unknown"
