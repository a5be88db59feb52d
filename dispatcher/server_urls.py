"""URLs of the database and the broker: what is wrong with one, in words without its password.

Only the form is looked at; nothing is resolved or connected.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

BROKER_SCHEMES: Final = ("redis", "rediss", "redis+socket", "sentinel", "amqp", "amqps")

#: As SQLAlchemy splits it, but for the hosts.
_DATABASE: Final = re.compile(
    r"postgres(?:ql)?://(?:(?P<account>[^:/@]*(?::[^@]*)?)@)?(?P<hosts>[^/?]*)"
    r"(?:/(?P<name>[^?]*))?(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_HOST: Final = re.compile(r"(?P<host>\[[^\[\]@]+\]|[^\[\]:@]*)(?::(?P<port>[^:@]*))?")
_HINT: Final = "; in a name or password write @ : / ? # as %40 %3A %2F %3F %23"


def database_url(given: str) -> str:
    """The URL as SQLAlchemy takes it: several hosts (``h1:5432,h2:5432``) become parameters.

    Raises:
        ValueError: it cannot be understood; the text shows nothing of the URL.
    """
    if not given.startswith(("postgresql://", "postgres://")):
        raise ValueError("must start with postgresql://")
    parts = _DATABASE.fullmatch(given)
    if parts is None:
        raise ValueError(f"not a URL (postgresql://user:password@host:port/name){_HINT}")
    found = [_host_and_port(each) for each in parts["hosts"].split(",")]
    if len(found) == 1:
        return given
    query = parts["query"] or ""
    if re.search(r"(?:^|&)(?:host|port)=", query):
        raise ValueError("hosts are given twice: before the name and as parameters")
    if not all(host for host, _ in found):
        raise ValueError("one of its hosts has no name")
    account = "" if parts["account"] is None else f"{parts['account']}@"
    hosts = quote(",".join(host.strip("[]") for host, _ in found), safe=",:")
    ports = ",".join(port for _, port in found)
    more = f"&{query}" if query else ""
    return f"postgresql://{account}/{parts['name'] or ''}?host={hosts}&port={ports}{more}"


def check_broker_url(given: str) -> None:
    """Look at a broker's URL; Sentinel's and RabbitMQ's may be several, with ``;`` between.

    Raises:
        ValueError: it cannot be understood; the text shows nothing of the URL.
    """
    scheme = given.split("://", 1)[0]
    if "://" not in given or scheme not in BROKER_SCHEMES:
        raise ValueError("must start with one of " + ", ".join(f"{s}://" for s in BROKER_SCHEMES))
    if scheme == "redis+socket":
        return
    for each in given.split(";"):
        rest = each.split("://", 1)[-1]
        place, _, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
        _host_and_port(place.rpartition("@")[2])
        if scheme in ("redis", "rediss") and not re.fullmatch(r"[0-9]{0,5}", path):
            raise ValueError(f"the database after the last / must be a number{_HINT}")


def _host_and_port(given: str) -> tuple[str, str]:
    parts = _HOST.fullmatch(given)
    if parts is None:
        raise ValueError(f"the host cannot be read{_HINT}")
    port = parts["port"] or ""
    if port and not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65536):
        raise ValueError(f"the port must be a number from 1 to 65535{_HINT}")
    return parts["host"], port
