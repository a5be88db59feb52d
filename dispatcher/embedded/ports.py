"""Which port the API of the stack listens on."""

from __future__ import annotations

import errno
import socket

from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings

_TRIES = 100


def choose_port(settings: Settings) -> int:
    """The port that was set, or the first free one from the default on.

    Raises:
        ConfigurationError: the port that was set is taken, or the address is not this machine's.
    """
    host, first = settings.api_host, settings.api_port
    if "api_port" in settings.model_fields_set:
        port = _bindable(host, first)
        if port is None:
            raise ConfigurationError(
                f"DISPATCHER_API_PORT: port {first} on {host} is taken by another program"
            )
        return port
    for candidate in range(first, first + _TRIES):
        port = _bindable(host, candidate)
        if port is not None:
            return port
    raise ConfigurationError(
        f"DISPATCHER_API_PORT: not set, and {first} to {first + _TRIES - 1} on {host} are all taken"
    )


def _bindable(host: str, port: int) -> int | None:
    """The port, with 0 turned into a free one; None when somebody else listens there."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            found: int = probe.getsockname()[1]
            return found
    except socket.gaierror as error:
        raise ConfigurationError(f"DISPATCHER_API_HOST: {host}: {error.strerror}") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return None
        raise ConfigurationError(
            f"DISPATCHER_API_HOST: cannot listen on {host}, port {port}: {error.strerror}"
        ) from None


def url_of(host: str, port: int) -> str:
    """The base URL for callers on this machine."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"
