"""The ASGI layer of v1: takes its paths out of the application's, and always answers in its form."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final
from urllib.parse import parse_qsl

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from dispatcher.api.services import Services
from dispatcher.api.v1 import access
from dispatcher.api.v1.call import Call, Ground, KnownCaller
from dispatcher.api.v1.envelope import Answer, Refused, answer_to
from dispatcher.api.v1.options import Options
from dispatcher.api.v1.root_bundle import RootBundle
from dispatcher.api.v1.root_directory import RootDirectory
from dispatcher.api.v1.routes import ROUTES
from dispatcher.api.v1.tls import CERTIFIED
from dispatcher.errors import ConfigurationError, DispatcherError

_PREFIX: Final = "/api/v1"
#: Threads for v1's calls; most parameters of one.
_THREADS: Final = 40
_PARAMETERS: Final = 100
_OTHER: Final = frozenset({"/api", "/metrics"})


class RunnerService:
    """Serves v1's paths, and passes on all others."""

    def __init__(self, app: ASGIApp, *, ground: Ground) -> None:
        self._app = app
        self._ground = ground
        # its own: SSH checks that hang keep no other request waiting for a thread
        self._threads = CapacityLimiter(_THREADS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_ours(scope["path"]):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = (await self._answer(request)).response()
        except ClientDisconnect:
            raise  # nobody is left to be answered
        except Exception as error:
            request_id = scope.get("state", {}).get("request_id", "")
            response = answer_to(error, request_id).response()
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Answer:
        body = await request.body()
        headers = {name.lower(): value for name, value in request.headers.items()}
        client = request.client.host if request.client else None
        return await to_thread.run_sync(
            self._called, request.scope, client, headers, body, limiter=self._threads
        )

    def _called(
        self, scope: Scope, client: str | None, headers: dict[str, str], body: bytes
    ) -> Answer:
        services = self._ground.services
        certified = bool(scope.get("state", {}).get(CERTIFIED))
        principal = access.principal(services, client, headers, certified=certified)
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        allowed = set()
        for route in ROUTES:
            parts = route.match(scope["path"])
            if parts is None:
                continue
            allowed.add(route.method)
            if route.method == method:
                scope["route"] = SimpleNamespace(path=route.template)
                query = _read_query(scope["query_string"])
                caller = KnownCaller(services, principal)
                return route.endpoint(Call(self._ground, caller, parts, query, headers, body))
        if allowed:
            raise Refused(
                "INVALID",
                "The method is not allowed for the requested URL.",
                code=405,
                headers={"Allow": ", ".join(sorted(allowed))},
            )
        raise Refused("NOTFOUND", "The requested URL was not found on the server.")


def _read_query(raw: bytes) -> dict[str, str]:
    """The first value of each parameter.

    Raises:
        Refused: too many.
    """
    query: dict[str, str] = {}
    try:
        for name, value in parse_qsl(
            raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_PARAMETERS
        ):
            query.setdefault(name, value)
    except ValueError:
        raise Refused("INVALID", f"more than {_PARAMETERS} parameters") from None
    return query


def _is_ours(path: str) -> bool:
    return path in _OTHER or path == _PREFIX or path.startswith(f"{_PREFIX}/")


def make_ground(services: Services, options: Options) -> Ground:
    """What v1's endpoints work with; the root directory is made when it is not there.

    Raises:
        ConfigurationError: that is not possible.
    """
    root = RootDirectory(options.root, options.ssh_key)
    try:
        root.prepare()
    except (OSError, DispatcherError) as error:
        raise ConfigurationError(f"DISPATCHER_V1_ROOT: {options.root}: {error}") from None
    return Ground(options, services, root, RootBundle(root, services))
