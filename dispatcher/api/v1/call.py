"""One call of v1: who asks, what for, and what endpoints work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from dispatcher.api.auth import Caller
from dispatcher.api.body import read_json
from dispatcher.api.services import Services
from dispatcher.api.v1.envelope import Answer, Refused
from dispatcher.api.v1.options import Options
from dispatcher.api.v1.root_bundle import RootBundle
from dispatcher.api.v1.root_directory import NAME, RootDirectory
from dispatcher.errors import InvalidRequest

_JSON: Final = "application/json"


class KnownCaller(Caller):
    """A caller of v1, let in before the endpoint was called: its name stands in place of a token."""

    def _named(self, connection: Connection) -> str:
        return self._token


@dataclass(frozen=True)
class Ground:
    """What every endpoint works with; one for each process."""

    options: Options
    services: Services
    root: RootDirectory
    bundle: RootBundle


@dataclass(frozen=True)
class Call:
    """One request.

    Attributes:
        parts: the variable parts of the path, never empty and without a slash.
        query: the first value of each parameter.
        headers: by lower-case name.
    """

    ground: Ground
    caller: Caller
    parts: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def root(self) -> RootDirectory:
        """The root directory."""
        return self.ground.root

    def name(self, part: str) -> str:
        """A part that must be a name of a host or group.

        Raises:
            Refused: it is not.
        """
        value = self.parts[part]
        if not NAME.fullmatch(value):
            raise Refused("INVALID", f"'{part}' is not a valid name")
        return value

    def json(self) -> Any:
        """The body's value.

        Raises:
            Refused: another content type, or not JSON.
        """
        given = self.headers.get("content-type")
        if given is None or not given.lower().startswith(_JSON):
            raise Refused("UNSUPPORTED", f"Invalid content-type({given}). Use {_JSON}")
        try:
            return read_json(self.body)
        except InvalidRequest as error:
            reason = "; ".join(m for messages in error.fields.values() for m in messages)
            raise Refused(
                "INVALID", f"Failed to decode JSON object: {reason.removeprefix('not JSON: ')}"
            ) from None


@dataclass(frozen=True)
class Route:
    """A route.

    Attributes:
        template: path with ``{name}`` for a variable part.
        summary: for the page about the API.
        parameters: what the query may hold, for the same.
        body: the JSON Schema of the body; None: none is read.
        success: the word of an answer without a fault.
    """

    method: str
    template: str
    endpoint: Callable[[Call], Answer]
    summary: str
    parameters: tuple[str, ...] = ()
    body: Mapping[str, Any] | None = None
    success: str = "OK"

    def match(self, path: str) -> dict[str, str] | None:
        """The variable parts of a path; None if it is another route's."""
        wanted, given = self.template.split("/"), path.split("/")
        if len(wanted) != len(given):
            return None
        parts: dict[str, str] = {}
        for want, part in zip(wanted, given, strict=True):
            if want.startswith("{"):
                if not part:
                    return None
                parts[want.strip("{}")] = part
            elif want != part:
                return None
        return parts
