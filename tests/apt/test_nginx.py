"""A real nginx before v1, with the configuration that the repository has."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from dispatcher.settings import Settings
from tests.api_server import in_thread
from tests.apt.conftest import free_port, listens, stop
from tests.runner_service import make_root, said
from tests.tls_front import make_certificates
from tests.waiting import wait_until

CONFIGURATION = Path(__file__).parents[2] / "docker/nginx/runner-service.conf"
_OLD = "/etc/ansible-runner-service/certs/server/"


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="dngx-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def configured(home: Path, ports: tuple[int, int], api_port: int) -> Path:
    """The configuration with ports and certificates of the test's own."""
    make_certificates(home)
    text = CONFIGURATION.read_text()
    for old, new in (
        (f"{_OLD}server.crt", home / "server.pem"),
        (f"{_OLD}server.key", home / "server.pem"),
        (f"{_OLD}ca.crt", home / "ca.pem"),
        ("listen 5001 ", f"listen 127.0.0.1:{ports[0]} "),
        ("listen 50001 ", f"listen 127.0.0.1:{ports[1]} "),
        ("127.0.0.1:8052", f"127.0.0.1:{api_port}"),
    ):
        assert old in text
        text = text.replace(old, str(new))
    temporary = "".join(
        f"{name}_temp_path {home}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = home / "nginx.conf"
    whole.write_text(
        f"daemon off;\npid {home}/pid;\nerror_log {home}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}{text}}}\n"
    )
    return whole


def test_client_certificates_reach_v1_and_nothing_else_does(
    settings: Settings, engine: Engine, home: Path
) -> None:
    given = {
        "v1_root": make_root(settings.data_dir / "root"),
        "v1_auth": "certificate",
    }
    with in_thread(settings.model_copy(update=given), engine) as api:
        port = httpx.URL(api.url).port
        assert port is not None
        ports = (free_port(), free_port())
        whole = configured(home, ports, port)
        program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin")
        assert program is not None
        subprocess.run([program, "-t", "-c", str(whole)], check=True, capture_output=True)
        server = subprocess.Popen([program, "-c", str(whole)], start_new_session=True)
        try:
            for each in ports:
                wait_until(listens(each), what=f"nginx listens on {each}")
            url = f"https://127.0.0.1:{ports[0]}/api/v1/playbooks"
            context = ssl.create_default_context(cafile=home / "ca.pem")
            without = httpx.get(url, verify=context, trust_env=False)
            assert without.status_code == 400
            context.load_cert_chain(home / "client.pem")
            assert said(httpx.get(url, verify=context, trust_env=False))[:2] == (200, "OK")
            spoofed = {"X-SSL-Client-Verify": "NONE"}
            answer = httpx.get(url, verify=context, trust_env=False, headers=spoofed)
            assert said(answer)[:2] == (200, "OK")
        finally:
            stop(server)
