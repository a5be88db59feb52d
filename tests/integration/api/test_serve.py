"""``python -m dispatcher.api.serve``: when it refuses to start, and how it stops."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack

import httpx
import pytest
from sqlalchemy import Engine, text

from dispatcher import health
from dispatcher.api.app import make_services
from dispatcher.api.serve import _require_token
from dispatcher.errors import ConfigurationError
from dispatcher.secrets import make_key_file
from dispatcher.settings import Settings
from tests.api_server import _token, as_process, client, start_process
from tests.factories import make_job, make_node
from tests.sse import following
from tests.tcp_proxy import in_front_of
from tests.waiting import wait_until


def _refused(settings: Settings, **variables: str) -> str:
    """The one line that a server which does not start says."""
    process = start_process(settings, **variables)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2, said
    lines = said.decode().strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_a_server_says_where_it_listens_and_is_ready(settings: Settings, engine: Engine) -> None:
    with as_process(settings, engine) as api:
        said = wait_until(
            lambda: (found := health.read(settings.data_dir, "api")) and found.ready and found
        )
        assert (said.url, said.reasons) == (api.url, {})
        assert api.http.get("/api/v2/jobs/").status_code == 200
        assert api.anonymous.get("/readyz").json()["status"] == "ok"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_with_open_streams_stops_in_order_and_soon(
    settings: Settings, engine: Engine, number: signal.Signals
) -> None:
    with engine.begin() as connection:
        make_node(connection)
        job = make_job(connection, status="running")
    with as_process(settings, engine) as api, ExitStack() as opened:
        streams = []
        for _ in range(10):
            http = opened.enter_context(client(api.url, api.token))
            streams.append(opened.enter_context(following(http, job)))
            next(streams[-1])
        api.http.get("/healthz")  # a connection that is kept alive
        assert api.process is not None
        os.kill(api.process.pid, number)
        # they end without the word "end", so that followers connect again
        assert [list(stream) for stream in streams] == [[]] * 10
        assert api.process.wait(timeout=20) == 0
    assert health.read(settings.data_dir, "api") is None


def test_a_server_whose_database_hangs_stops_soon_all_the_same(
    settings: Settings, engine: Engine
) -> None:
    assert settings.database_url is not None
    proxy, url = in_front_of(settings.database_url)
    with proxy, as_process(settings, engine, DISPATCHER_DATABASE_URL=url) as api:
        assert api.process is not None
        assert api.http.get("/api/v2/jobs/").status_code == 200
        proxy.stall()
        waiting = socket.create_connection((api.http.base_url.host, api.http.base_url.port or 0))
        with waiting:
            head = f"GET /api/v2/jobs/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n\r\n"
            waiting.sendall(head.encode())
            # answered by the same event loop after it: the request is under way
            assert api.http.get("/healthz").status_code == 200
            api.process.terminate()
            assert api.process.wait(timeout=20) == 0


def test_a_database_without_schema_is_refused(settings: Settings, empty_database_url: str) -> None:
    empty = settings.model_copy(update={"database_url": empty_database_url})
    assert "dispatcher migrate" in _refused(
        settings, DISPATCHER_DATABASE_URL=str(empty.database_url)
    )


def test_a_schema_that_needs_newer_code_is_refused(settings: Settings, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE schema_info SET min_code = 999"))
    assert "999" in _refused(settings)


def test_anything_but_loopback_is_refused_without_a_token(
    settings: Settings, engine: Engine
) -> None:
    said = _refused(settings, DISPATCHER_API_HOST="0.0.0.0")
    assert "DISPATCHER_API_HOST" in said
    assert "dispatcher token create" in said
    make_key_file(settings.data_dir / "cluster.key")
    services = make_services(settings)
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(ConfigurationError):
            _require_token(settings.model_copy(update={"api_host": host}), services)
    for host in ("127.0.0.1", "localhost", "127.8.8.8", "::1"):
        _require_token(settings.model_copy(update={"api_host": host}), services)
    _token(engine)
    _require_token(settings.model_copy(update={"api_host": "0.0.0.0"}), services)
    services.engine.dispose()


def test_a_port_in_use_and_an_unknown_host_are_refused(settings: Settings, engine: Engine) -> None:
    _token(engine)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "DISPATCHER_API_PORT" in _refused(settings, DISPATCHER_API_PORT=str(port))
    assert "DISPATCHER_API_HOST" in _refused(settings, DISPATCHER_API_HOST="no.such.host.invalid")


def test_v1_without_authentication_is_refused_beyond_loopback(
    settings: Settings, engine: Engine
) -> None:
    _token(engine)
    variables = {"DISPATCHER_API_HOST": "0.0.0.0", "DISPATCHER_V1": "on"}
    assert "DISPATCHER_V1_AUTH" in _refused(settings, **variables)


def test_v1_is_served_on_a_port_of_its_own_beside_the_ordinary_one(
    settings: Settings, engine: Engine
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {"DISPATCHER_V1": "on", "DISPATCHER_V1_PORT": str(port)}
    with as_process(settings, engine, **variables) as api:
        for url in (api.url, f"http://127.0.0.1:{port}"):
            answer = httpx.get(f"{url}/api/v1/playbooks", trust_env=False)
            assert answer.json()["msg"] == "0 playbook found"


def test_a_wrong_old_configuration_is_refused(settings: Settings, engine: Engine) -> None:
    assert engine
    file = settings.data_dir / "old.yaml"
    for content in ("port: x\n", "[1]\n", "a: [\n"):
        file.write_text(content)
        assert "DISPATCHER_V1_CONFIG" in _refused(settings, DISPATCHER_V1_CONFIG=str(file))


def test_a_missing_key_file_or_a_bad_setting_is_refused(settings: Settings) -> None:
    assert "key file" in _refused(settings, DISPATCHER_KEY_FILE="/nonexistent/cluster.key")
    assert "DISPATCHER_API_PORT" in _refused(settings, DISPATCHER_API_PORT="many")


def test_a_server_waits_for_its_database(settings: Settings, engine: Engine) -> None:
    assert settings.database_url is not None
    proxy, url = in_front_of(settings.database_url)
    token = _token(engine)
    with proxy:
        proxy.cut()
        process = start_process(settings, DISPATCHER_DATABASE_URL=url)
        try:
            assert process.stderr is not None
            assert b"waiting_for_the_database" in process.stderr.readline()
            proxy.restore()
            found: Callable[[], health.Status | None] = lambda: health.read(  # noqa: E731
                settings.data_dir, "api"
            )
            said = wait_until(found)
            assert said is not None
            assert said.url is not None
            with client(said.url, token) as http:
                assert http.get("/api/v2/jobs/").status_code == 200
        finally:
            process.terminate()
            process.communicate(timeout=10)
