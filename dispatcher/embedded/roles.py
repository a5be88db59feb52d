"""The roles of ``dispatcher up``, as data: what is run with which settings, and when it is ready."""

from __future__ import annotations

import http.client
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dispatcher import health
from dispatcher.embedded.state import node_data_dir
from dispatcher.processes import ancestry
from dispatcher.settings import Settings, node_name

#: Seconds between SIGTERM and SIGKILL of a playbook when the stack stops: all must end in 10 s.
_STOP_GRACE = 2.0


@dataclass(frozen=True)
class Role:
    """One process that is kept running.

    Attributes:
        name: for messages, its log and ``dispatcher status``.
        arguments: of the Python interpreter.
        settings: what it gets as ``DISPATCHER_*`` variables.
        ready: asked with the process's pid, until it answers true.
        death_signal: what it gets when the stack's own process dies.
    """

    name: str
    arguments: tuple[str, ...]
    settings: Settings
    ready: Callable[[int], bool]
    death_signal: signal.Signals = signal.SIGTERM


def standard_roles(settings: Settings, api_url: str) -> list[Role]:
    """api, beat, control and one worker, named as this machine.

    Args:
        settings: with the servers' URLs, the key file and the port of the API.
        api_url: where the API will answer.
    """
    name = node_name(settings)
    directory = node_data_dir(settings.data_dir, name)
    node_settings = settings.model_copy(
        update={
            "data_dir": directory,
            "node_name": name,
            "stop_policy": "cancel",
            "stop_grace": min(settings.stop_grace, _STOP_GRACE),
        }
    )
    passes = ("-m", "schedulers.passes.app")
    return [
        Role("api", ("-m", "dispatcher.api.serve"), settings, lambda _: _answers(api_url)),
        Role("beat", (*passes, "beat"), settings, _says_so(settings.data_dir, "beat")),
        Role("control", (*passes, "control"), settings, _says_so(settings.data_dir, "control")),
        Role(
            "worker",
            ("-m", "workers.app", "worker"),
            node_settings,
            _says_so(directory, "worker"),
            # told to stop it would cancel its playbooks; killed, its agent lets them go on
            death_signal=signal.SIGKILL,
        ),
    ]


def _answers(url: str) -> bool:
    """Whether the API says that it can do its work."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _says_so(data_dir: Path, role: str) -> Callable[[int], bool]:
    def ready(pid: int) -> bool:
        said = health.read(data_dir, role)
        if said is None or not said.ready or not said.alive:
            return False
        # by the role or a child of its own: an earlier process's last word counts for nothing
        return pid in ancestry(said.pid)

    return ready
