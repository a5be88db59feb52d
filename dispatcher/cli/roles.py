"""``dispatcher api|beat|control|worker``: settings are checked, then the process becomes the role.

The command line imports no role; ``os.execv`` replaces it, so that a role's pid, signals and exit
code are its own. What was given by options goes on as ``DISPATCHER_*`` variables.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from dispatcher import settings as settings_module
from dispatcher.cli.databases import with_servers
from dispatcher.embedded.state import node_data_dir
from dispatcher.settings import Settings

#: Command → what ``python -m`` runs.
MODULES: dict[str, tuple[str, ...]] = {
    "api": ("dispatcher.api.serve",),
    "beat": ("schedulers.passes.app", "beat"),
    "control": ("schedulers.passes.app", "control"),
    "worker": ("workers.app", "worker"),
}

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="TOML file with settings."),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(help="Port for /metrics, /healthz and /readyz; 0: none."),
]


def register(app: typer.Typer) -> None:
    """Add the role commands."""
    panel = "Roles (each runs alone, any number of each)"
    for function in (api, beat, control, worker):
        app.command(rich_help_panel=panel)(function)


def api(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0: a free one.")] = None,
    v1_port: Annotated[
        int | None, typer.Option(help="A further port, for clients of the old runner service.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Serve REST, live streams and /metrics."""
    given = settings_module.load(config_file=config, api_host=host, api_port=port, v1_port=v1_port)
    _become("api", with_servers(given))


def beat(metrics_port: MetricsPort = None, config: ConfigFile = None) -> None:
    """Trigger the managers periodically; a second beat stands by."""
    given = settings_module.load(config_file=config, beat_metrics_port=metrics_port)
    _become("beat", with_servers(given))


def control(metrics_port: MetricsPort = None, config: ConfigFile = None) -> None:
    """Run the managers: dependency, task, workflow, recovery, schedules."""
    given = settings_module.load(config_file=config, control_metrics_port=metrics_port)
    _become("control", with_servers(given))


def worker(
    name: Annotated[
        str | None, typer.Option(help="The node's name; default the host name.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="Instance groups to join, separated by commas.")
    ] = None,
    capacity: Annotated[
        int | None, typer.Option(help="Fixed capacity; default from CPU and memory.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="The node's own directory; beside a running `dispatcher up` default one of its name."
        ),
    ] = None,
    metrics_port: MetricsPort = None,
    config: ConfigFile = None,
) -> None:
    """Run playbooks on this machine as a node of the cluster."""
    options: dict[str, Any] = {
        "config_file": config,
        "node_name": name,
        "node_groups": groups,
        "node_capacity": capacity,
        "worker_metrics_port": metrics_port,
    }
    given = settings_module.load(**options)
    _become("worker", _own_directory(given, with_servers(given), data_dir))


def _own_directory(settings: Settings, stack: Settings, data_dir: Path | None) -> Settings:
    """A node beside a running stack keeps its own directory: the stack's own node has one too.

    Args:
        settings: as given.
        stack: with the servers of a running stack, when they are used.
    """
    if data_dir is None and stack is not settings:
        data_dir = node_data_dir(settings.data_dir, settings_module.node_name(settings))
    return stack if data_dir is None else stack.model_copy(update={"data_dir": data_dir})


def _become(role: str, settings: Settings) -> NoReturn:
    """Replace this process by the role's."""
    os.environ.update(settings_module.environment(settings))
    # -P: a directory named like one of our packages, where the command is run, is not ours
    os.execv(sys.executable, [sys.executable, "-P", "-m", *MODULES[role]])
