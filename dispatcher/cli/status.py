"""``dispatcher status``: what of the embedded stack runs, and the nodes it serves."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dispatcher import health
from dispatcher import settings as settings_module
from dispatcher.cli.output import print_json, print_table, say
from dispatcher.client.answers import Node
from dispatcher.client.client import Client
from dispatcher.client.connection import Connection
from dispatcher.embedded.state import ProcessState, StackState, running_stack
from dispatcher.errors import DispatcherError
from dispatcher.settings import Settings

NOT_RUNNING = 3
#: Seconds to wait for the API: this is a look, not a job.
_PATIENCE = 2.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(status)


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the processes of `dispatcher up`, its address and its nodes; exit 3 if it does not run."""
    settings = settings_module.load()
    stack = running_stack(settings.data_dir)
    if stack is None:
        say(f"nothing runs on {settings.data_dir}")
        raise typer.Exit(NOT_RUNNING)
    nodes, trouble = _nodes(stack)
    if as_json:
        print_json(_as_json(settings, stack, nodes))
        return
    say(f"{stack.phase} since {stack.started} on {settings.data_dir}, API at {stack.api_url}")
    print_table(
        ("PROCESS", "STATE", "PID", "RESTARTS"),
        [("up", stack.phase, stack.up.pid, 0)]
        + [(p.name, _state(settings, p), _pid(p) or "", p.restarts) for p in stack.processes],
    )
    if trouble:
        say(f"nodes: {trouble}")
    elif nodes:
        print_table(
            ("NODE", "STATE", "CAPACITY", "TAKEN", "RUNNING", "TAKES NO JOBS"),
            [(n.name, n.state, n.capacity, n.consumed, n.running, n.errors) for n in nodes],
        )


def _state(settings: Settings, process: ProcessState) -> str:
    """What ``dispatcher up`` says, and what the role itself misses by now."""
    said = health.read(settings.data_dir, process.name)
    if process.state == "ready" and said is not None and said.alive and said.reasons:
        return "; ".join(f"{name}: {words}" for name, words in said.reasons.items())
    return process.state


def _pid(process: ProcessState) -> int | None:
    return process.mark.pid if process.mark is not None and process.mark.alive() else None


def _nodes(stack: StackState) -> tuple[list[Node], str]:
    """The nodes, or why they cannot be listed."""
    if not stack.api_url:
        return [], ""
    try:
        with Client(Connection(stack.api_url, stack.token(), patience=_PATIENCE)) as client:
            return client.nodes(), ""
    except DispatcherError as error:
        return [], str(error)


def _as_json(settings: Settings, stack: StackState, nodes: list[Node]) -> dict[str, Any]:
    return {
        "phase": stack.phase,
        "started": stack.started,
        "pid": stack.up.pid,
        "api_url": stack.api_url,
        "token_file": str(stack.token_file),
        "data_dir": str(settings.data_dir),
        "processes": [
            {
                "name": process.name,
                "state": _state(settings, process),
                "pid": _pid(process),
                "restarts": process.restarts,
            }
            for process in stack.processes
        ],
        "nodes": [
            {"name": node.name, "state": node.state, "running": node.running} for node in nodes
        ],
    }
