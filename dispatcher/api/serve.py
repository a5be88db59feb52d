"""``python -m dispatcher.api.serve``: checks that may stop the role, then the HTTP server."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import sys
import threading
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from dispatcher import clock, logs
from dispatcher.actions.tokens import any_token
from dispatcher.api.app import create_app
from dispatcher.api.health import missing
from dispatcher.api.services import Services
from dispatcher.api.v1.options import options_of
from dispatcher.api.v1.tls import Certified, tls_of
from dispatcher.db.schema_check import check_schema
from dispatcher.errors import ConfigurationError, DispatcherError, Unavailable
from dispatcher.health import BEAT_SECONDS, Health
from dispatcher.settings import Settings, load

log = logs.get(__name__)

#: Seconds that the start waits for the database.
_DATABASE_PATIENCE: Final = 60.0
#: Seconds that open answers have to end when the server stops; streams end at once.
_GRACE: Final = 3
#: Seconds after which a stop is made final, whatever a frozen database holds up.
_STOP_LIMIT: Final = 4.5


@dataclass(frozen=True)
class _Tls:
    """A listener that speaks TLS, and the application as its connections see it."""

    listener: socket.socket
    context: ssl.SSLContext
    config: uvicorn.Config


class _Server(uvicorn.Server):
    """Ends the open streams before it waits for connections to close; may speak TLS at one port."""

    def __init__(self, config: uvicorn.Config, services: Services, tls: _Tls | None) -> None:
        super().__init__(config)
        self._services = services
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._tls is not None:
            self.servers.append(
                await asyncio.get_running_loop().create_server(
                    lambda: self._protocol(self._tls),
                    sock=self._tls.listener,
                    ssl=self._tls.context,
                )
            )

    def _protocol(self, tls: Any) -> asyncio.Protocol:
        protocol: Any = tls.config.http_protocol_class
        made: asyncio.Protocol = protocol(
            config=tls.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        limit = threading.Timer(_STOP_LIMIT, os._exit, (0,))
        limit.daemon = True
        limit.start()
        self._services.followers.stop()
        await super().shutdown(sockets)


def main() -> int:
    """Serve until a signal.

    Returns:
        The exit code: 0 after a signal, 2 when the configuration does not fit.
    """
    try:
        settings = load()
        logs.configure(settings, role="api")
        app = create_app(settings)
        services: Services = app.state.services
        _wait_for_schema(services)
        _require_token(settings, services)
        tls = tls_of(settings)
        listeners = [_listen(settings.api_host, settings.api_port, "DISPATCHER_API_PORT")]
        v1 = options_of(settings)
        if v1 is not None and v1.port is not None:
            listeners.append(_listen(settings.api_host, v1.port, "DISPATCHER_V1_PORT"))
        elif tls is not None:
            raise ConfigurationError("DISPATCHER_V1_TLS_CERT: TLS needs DISPATCHER_V1_PORT")
    except ConfigurationError as error:
        print(f"dispatcher api: {error}", file=sys.stderr)
        return 2
    except DispatcherError as error:
        print(f"dispatcher api: {error}", file=sys.stderr)
        return 1
    return _serve(settings, app, services, listeners, tls)


def _wait_for_schema(services: Services) -> None:
    """Wait for the database, and refuse a schema that does not fit.

    Raises:
        SchemaError: it does not fit.
        Unavailable: the database did not come.
    """
    deadline = clock.monotonic() + _DATABASE_PATIENCE
    said = False
    while True:
        try:
            with services.reading() as connection:
                check_schema(connection)
            return
        except Unavailable:
            if clock.monotonic() > deadline:
                raise
            if not said:
                log.warning("waiting_for_the_database")
                said = True
            clock.sleep(0.5)


def _require_token(settings: Settings, services: Services) -> None:
    if _is_loopback(settings.api_host):
        return
    if options_of(settings) is not None and settings.v1_auth == "none":
        raise ConfigurationError(
            f"DISPATCHER_V1_AUTH: {settings.api_host} is not loopback: v1 needs `token` or"
            " `certificate` there"
        )
    with services.reading() as connection:
        found = any_token(connection)
    if not found:
        raise ConfigurationError(
            f"DISPATCHER_API_HOST: {settings.api_host} is not loopback, and there is no API token"
            " yet: make one with `dispatcher token create`"
        )


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigurationError(f"DISPATCHER_API_HOST: {host}: {error.strerror}") from None
    return [(family, str(address[0])) for family, _, _, _, address in found]


def _is_loopback(host: str) -> bool:
    return all(address.startswith("127.") or address == "::1" for _, address in _addresses(host, 0))


def _listen(host: str, port: int, setting: str) -> socket.socket:
    family, address = _addresses(host, port)[0]
    # asyncio switches Nagle's algorithm off only where the protocol is named: without it an answer
    # in two writes waits 40 ms for the client's delayed acknowledgment
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"{setting}: {host}:{port}: {error.strerror}") from None
    return listener


def _url(listener: socket.socket) -> str:
    """Where this machine reaches the server."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _serve(
    settings: Settings,
    app: FastAPI,
    services: Services,
    listeners: list[socket.socket],
    tls: ssl.SSLContext | None,
) -> int:
    config = _config(app)
    of_v1 = None
    if tls is not None:
        certified = _config(Certified(app) if tls.verify_mode is ssl.CERT_REQUIRED else app)
        certified.load()
        of_v1 = _Tls(listeners[1], tls, certified)
    server = _Server(config, services, of_v1)
    health = Health(settings, "api", url=_url(listeners[0]))
    stopped = threading.Event()
    watch = threading.Thread(
        target=_watch, args=(health, services, stopped), name="health", daemon=True
    )
    # uvicorn raises the signal again when it has stopped; that is no news then
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    for listener in listeners:
        listener.listen(2048)
        encrypted = of_v1 is not None and listener is of_v1.listener
        log.info("listening", url=_url(listener), tls=encrypted)
    health.say({"role": "starting"})
    watch.start()
    try:
        server.run(sockets=listeners[:1] if of_v1 else listeners)
    finally:
        stopped.set()
        health.close()
    return 0 if server.started else 1


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_GRACE,
    )


def _watch(health: Health, services: Services, stopped: threading.Event) -> None:
    """Keep the role's health file true."""
    while True:
        try:
            reasons = missing(services)
        except Exception as error:
            log.exception("health_check_failed")
            reasons = {"role": repr(error)}
        if stopped.is_set():
            return
        health.say(reasons)
        stopped.wait(BEAT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
