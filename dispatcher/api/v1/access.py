"""Who may call v1: everybody on this machine, or whoever proves who they are."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from dispatcher.actions.tokens import principal_of
from dispatcher.api.errors import NotAuthenticated
from dispatcher.api.services import Services
from dispatcher.api.v1.envelope import Refused

#: Name of callers who need not say who they are.
PRINCIPAL: Final = "runner-service"


def principal(
    services: Services, client: str | None, headers: Mapping[str, str], *, certified: bool = False
) -> str:
    """The name of whoever sent a request.

    Args:
        client: address that it came from; None for a local socket.
        headers: by lower-case name.
        certified: the connection itself showed a valid client certificate.

    Raises:
        Refused: not from this machine, or for a name that is not this machine's: a page in a
            browser must not reach v1 by a name of its own.
        NotAuthenticated: no token or certificate, or one that is not valid.
    """
    settings = services.settings
    if settings.v1_auth == "token":
        return _by_token(services, headers.get("authorization", ""))
    if settings.v1_auth == "certificate":
        if certified:
            return PRINCIPAL
        given = headers.get(settings.v1_certificate_header.lower(), "")
        trusted = {each.strip() for each in settings.v1_trusted_proxies.split(",")}
        if client not in trusted or not hmac.compare_digest(given.encode(), b"SUCCESS"):
            raise NotAuthenticated("Access denied: no valid client certificate")
        return PRINCIPAL
    host, origin = headers.get("host"), headers.get("origin")
    if (
        (client is not None and not is_loopback(client))
        or (host is not None and not is_loopback(_name_of(f"//{host}")))
        or (origin is not None and not is_loopback(_name_of(origin)))
    ):
        raise Refused("FORBIDDEN", "without authentication only this machine is served")
    return PRINCIPAL


def _by_token(services: Services, header: str) -> str:
    scheme, _, token = header.partition(" ")
    if not header:
        raise NotAuthenticated("Access denied missing token")
    with services.reading() as connection:
        found = principal_of(connection, token.strip()) if scheme.lower() == "bearer" else None
    if found is None:
        raise NotAuthenticated("Access denied invalid token")
    return found


def _name_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
