"""v1's own port with TLS: certificates are real, and so are the clients that have none."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from dispatcher.api.v1.tls import tls_of
from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings
from tests.api_server import Api, as_process
from tests.nodes import free_port
from tests.runner_service import make_root, said
from tests.tls_front import make_certificates

RUNS = "/api/v1/playbooks"
SAYS_SO = {"X-SSL-Client-Verify": "SUCCESS"}


@dataclass
class Server:
    api: Api
    port: int
    certificates: Path

    def get(self, certificate: str | None, **options: Any) -> httpx.Response:
        """A call over v1's port, with this file as the client's certificate."""
        context = ssl.create_default_context(cafile=self.certificates / "ca.pem")
        if certificate is not None:
            context.load_cert_chain(self.certificates / certificate)
        url = f"https://127.0.0.1:{self.port}{RUNS}"
        return httpx.get(url, verify=context, trust_env=False, **options)


@pytest.fixture(scope="module")
def certificates(session_dir: Path) -> Path:
    directory = session_dir / "v1-certificates"
    directory.mkdir()
    make_certificates(directory)
    return directory


@pytest.fixture(scope="module")
def server(v1_settings: Settings, v1_engine: Engine, certificates: Path) -> Iterator[Server]:
    port = free_port()
    settings = v1_settings.model_copy(
        update={
            "v1_root": make_root(v1_settings.data_dir / "root"),
            "v1_port": port,
            "v1_auth": "certificate",
            "v1_trusted_proxies": "192.0.2.1",
            "v1_tls_cert": certificates / "server.pem",
            "v1_tls_key": certificates / "server.pem",
            "v1_tls_client_ca": certificates / "ca.pem",
            "log_level": "error",
        }
    )
    with as_process(settings, v1_engine) as api:
        yield Server(api, port, certificates)


def test_who_has_a_certificate_is_served(server: Server) -> None:
    assert said(server.get("client.pem"))[:2] == (200, "OK")


@pytest.mark.parametrize("certificate", [None, "stranger.pem"])
def test_nobody_else_is_let_in(server: Server, certificate: str | None) -> None:
    with pytest.raises((httpx.ReadError, httpx.ConnectError, httpx.RemoteProtocolError)):
        server.get(certificate, headers=SAYS_SO)


def test_at_the_ordinary_port_a_header_is_not_a_certificate(server: Server) -> None:
    assert said(server.api.anonymous.get(RUNS, headers=SAYS_SO))[:2] == (401, "NOAUTH")
    forwarded = {**SAYS_SO, "X-Forwarded-Proto": "https"}
    assert said(server.api.anonymous.get(RUNS, headers=forwarded))[0] == 401


def test_v2_wants_its_token_there_too(server: Server) -> None:
    assert server.api.http.get("/api/v2/jobs/").status_code == 200
    assert server.api.anonymous.get("/api/v2/jobs/").status_code == 401


def test_a_server_stops_in_order(v1_settings: Settings, server: Server) -> None:
    assert said(server.get("client.pem"))[0] == 200
    assert server.api.process is not None
    server.api.process.terminate()
    assert server.api.process.wait(20) in (0, -15)


def test_without_authorities_anybody_may_connect_and_needs_a_token(
    v1_settings: Settings, v1_engine: Engine, certificates: Path, data_dir: Path
) -> None:
    port = free_port()
    changes = {
        "v1_root": make_root(data_dir / "root"),
        "v1_port": port,
        "v1_auth": "certificate",
        "v1_tls_cert": certificates / "server.pem",
        "v1_tls_key": certificates / "server.pem",
        "log_level": "error",
    }
    with as_process(v1_settings.model_copy(update=changes), v1_engine) as api:
        assert said(Server(api, port, certificates).get("client.pem"))[:2] == (401, "NOAUTH")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"v1_tls_cert": "server.pem"}, "V1_TLS_CERT: TLS needs"),
        ({"v1_tls_client_ca": "ca.pem"}, "V1_TLS_CLIENT_CA: TLS needs"),
        ({"v1_tls_cert": "none.pem", "v1_tls_key": "server.pem"}, "V1_TLS_CERT: "),
        ({"v1_tls_cert": "server.pem", "v1_tls_key": "client.pem"}, "V1_TLS_CERT: "),
        (
            {"v1_tls_cert": "server.pem", "v1_tls_key": "server.pem", "v1_tls_client_ca": "x"},
            "V1_TLS_CLIENT_CA: ",
        ),
    ],
)
def test_files_that_do_not_fit_are_named(
    v1_settings: Settings, certificates: Path, changes: dict[str, str], words: str
) -> None:
    given = {name: certificates / file for name, file in changes.items()}
    with pytest.raises(ConfigurationError) as raised:
        tls_of(v1_settings.model_copy(update=given))
    assert str(raised.value).startswith(f"DISPATCHER_{words}")


def test_without_a_port_of_its_own_there_is_no_tls(v1_settings: Settings) -> None:
    assert tls_of(v1_settings) is None
