"""TLS on v1's own port: a server certificate, and client certificates that are asked for."""

from __future__ import annotations

import ssl
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings

#: What is true in the state of a request whose connection showed a valid client certificate.
CERTIFIED: Final = "client_certificate_is_valid"


def tls_of(settings: Settings) -> ssl.SSLContext | None:
    """How v1's port speaks TLS; None: it does not.

    Raises:
        ConfigurationError: a file is missing, or is not what it should be.
    """
    certificate, key = settings.v1_tls_cert, settings.v1_tls_key
    if certificate is None or key is None:
        for name in ("v1_tls_cert", "v1_tls_key", "v1_tls_client_ca"):
            if getattr(settings, name) is not None:
                raise ConfigurationError(
                    f"DISPATCHER_{name.upper()}: TLS needs DISPATCHER_V1_TLS_CERT and"
                    " DISPATCHER_V1_TLS_KEY"
                )
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # a password would be asked for at a terminal that may not be there
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"DISPATCHER_V1_TLS_CERT: {certificate}: {error}") from None
    if settings.v1_tls_client_ca is not None:
        try:
            context.load_verify_locations(settings.v1_tls_client_ca)
        except OSError as error:
            file = settings.v1_tls_client_ca
            raise ConfigurationError(f"DISPATCHER_V1_TLS_CLIENT_CA: {file}: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class Certified:
    """The application as connections with a valid client certificate see it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # nothing that a caller sends comes here
        scope.setdefault("state", {})[CERTIFIED] = True
        await self._app(scope, receive, send)
