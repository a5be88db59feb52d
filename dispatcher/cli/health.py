"""``dispatcher health ROLE``: whether a role on this machine can do its work, as an exit code."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import requests
import typer

from dispatcher import health as health_files
from dispatcher import settings as settings_module
from dispatcher.cli.output import say
from dispatcher.embedded.ports import url_of
from dispatcher.embedded.state import node_data_dir
from dispatcher.settings import Settings

_TIMEOUT = 5.0


class Role(StrEnum):
    """What can be asked for."""

    API = "api"
    BEAT = "beat"
    CONTROL = "control"
    WORKER = "worker"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(health)


def health(role: Annotated[Role, typer.Argument(help="The role.")]) -> None:
    """Exit 0 if the role on this machine is ready, else 1 with the reasons on stderr.

    The API is asked over HTTP; the others keep a file in the data directory.
    """
    settings = settings_module.load()
    reasons = _api_reasons(settings) if role is Role.API else _file_reasons(settings, role)
    for reason in reasons:
        say(f"{role}: {reason}")
    raise typer.Exit(1 if reasons else 0)


def _api_reasons(settings: Settings) -> list[str]:
    said = health_files.read(settings.data_dir, Role.API)
    # its own word: the port may have been an option of the role, or any free one
    listens = said.url if said is not None and said.alive else None
    url = f"{listens or url_of(settings.api_host, settings.api_port)}/readyz"
    with requests.Session() as session:
        session.trust_env = False  # a proxy is not for one's own machine
        try:
            answer = session.get(url, timeout=_TIMEOUT)
        except requests.RequestException as error:
            return [f"{url}: {type(error).__name__}"]
    return [] if answer.status_code == 200 else [f"{url}: {answer.status_code} {answer.text[:300]}"]


def _directory(settings: Settings, role: Role) -> Path:
    """Where the role keeps its file; a node of the embedded stack has a directory of its own."""
    own = node_data_dir(settings.data_dir, settings_module.node_name(settings))
    beside_stack = (
        role is Role.WORKER
        and own.is_dir()
        and not health_files.path(settings.data_dir, role).exists()
    )
    return own if beside_stack else settings.data_dir


def _file_reasons(settings: Settings, role: Role) -> list[str]:
    directory = _directory(settings, role)
    said = health_files.read(directory, role)
    if said is None:
        return [f"has said nothing in {health_files.path(directory, role)}"]
    if not said.alive:
        return [f"has said nothing for {said.age:.0f} s (pid {said.pid})"]
    if said.ready:
        return []
    return [f"{name}: {words}" for name, words in said.reasons.items()] or ["not ready"]
