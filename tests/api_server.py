"""An API server of the test's own, in a thread or as a process, and an HTTP client for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx
import uvicorn
from sqlalchemy import Engine

from dispatcher import health
from dispatcher.actions.tokens import create_token
from dispatcher.api.app import create_app
from dispatcher.api.services import Services
from dispatcher.secrets import make_key_file
from dispatcher.settings import Settings, environment
from tests.waiting import wait_until


@dataclass
class Api:
    """A running server.

    Attributes:
        http: a client that sends a valid token.
        anonymous: a client that sends none.
        services: what its endpoints work with; None for a server in another process.
    """

    url: str
    token: str
    http: httpx.Client
    anonymous: httpx.Client
    services: Services | None = None
    process: subprocess.Popen[bytes] | None = field(default=None)


def filled(path: str, ids: Mapping[str, int] | None = None) -> str:
    """A path of the description with numbers in it.

    Args:
        ids: resource → number of an object; all other numbers are 1.
    """
    resource = path.removeprefix("/api/v2/").partition("/")[0]
    first = (ids or {}).get(resource, 1)
    path = re.sub(r"(?<=/)\{\w+_id\}", str(first), path, count=1)
    return re.sub(r"\{\w+\}", "1", path.replace("{digest}", "a" * 64))


def smallest_body(description: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any] | None:
    """The fields that an operation's body requires, with values of their types."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None or "$ref" not in content["schema"]:
        return None if content is None else {}
    schema = description["components"]["schemas"][content["schema"]["$ref"].rsplit("/", 1)[-1]]
    values = {"integer": 1, "string": "x", "boolean": True, "number": 1, "array": [], "object": {}}
    return {
        name: schema["properties"][name].get("examples", [values.get(facts.get("type"))])[0]
        for name, facts in schema["properties"].items()
        if name in schema.get("required", ())
    }


def _token(engine: Engine, name: str = "tests") -> str:
    with engine.begin() as connection:
        return create_token(connection, name)


def client(url: str, token: str | None, **options: object) -> httpx.Client:
    """A client; without redirects, and patient enough for a server whose database is away."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False, **options)  # type: ignore[arg-type]


@contextmanager
def in_thread(settings: Settings, engine: Engine) -> Iterator[Api]:
    """A server in this process."""
    make_key_file(settings.data_dir / "cluster.key")
    app = create_app(settings)
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=3
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started, what="the server has started")
    port = server.servers[0].sockets[0].getsockname()[1]
    url, token = f"http://127.0.0.1:{port}", _token(engine)
    try:
        with client(url, token) as http, client(url, None) as anonymous:
            yield Api(url, token, http, anonymous, app.state.services)
    finally:
        app.state.services.followers.stop_soon()
        server.should_exit = True
        thread.join(10)


def start_process(
    settings: Settings, log: IO[bytes] | int = subprocess.PIPE, **variables: str
) -> subprocess.Popen[bytes]:
    """``python -m dispatcher.api.serve`` with these settings, on a free port.

    Args:
        log: where its log goes. A pipe that nobody reads stops it after some hundred lines.
    """
    make_key_file(settings.data_dir / "cluster.key")
    known = {k: v for k, v in os.environ.items() if not k.startswith("DISPATCHER_")}
    return subprocess.Popen(
        [sys.executable, "-m", "dispatcher.api.serve"],
        env=known | environment(settings) | {"DISPATCHER_API_PORT": "0"} | variables,
        cwd=Path(__file__).parents[1],
        stderr=log,
    )


@contextmanager
def as_process(settings: Settings, engine: Engine, **variables: str) -> Iterator[Api]:
    """A server as its own process."""
    token = _token(engine)
    log_file = settings.data_dir / "api.log"
    with log_file.open("ab") as log:
        process = start_process(settings, log, **variables)

    def url() -> str | None:
        assert process.poll() is None, log_file.read_text()
        said = health.read(settings.data_dir, "api")
        return said.url if said is not None and said.pid == process.pid else None

    try:
        found = wait_until(url, what="the server has said where it listens")
        assert found is not None
        with client(found, token) as http, client(found, None) as anonymous:
            yield Api(found, token, http, anonymous, None, process)
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
