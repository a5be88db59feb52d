"""RabbitMQ and pgbouncer from apt, started once, on loopback, in directories of the tests' own."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import kombu
import pytest
from sqlalchemy.engine import make_url

from tests.waiting import wait_until

RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory needs apt; ``make test`` leaves it out by the mark."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.apt)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> Callable[[], bool]:
    def check() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    return check


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process group of ours and wait for it."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[str]:
    """A RabbitMQ of the tests' own: its amqp:// URL."""
    home = Path(tempfile.mkdtemp(prefix="drmq-", dir="/tmp"))
    port, dist_port, epmd_port = free_port(), free_port(), free_port()
    (home / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{port}\nloopback_users = none\nlog.console = true\n"
    )
    (home / "plugins").write_text("[].\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "RABBITMQ_NODENAME": "tests@localhost",
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_DIST_PORT": str(dist_port),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-setcookie {secrets.token_hex(8)}"
        " -kernel inet_dist_use_interface {127,0,0,1}",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(epmd_port),
    }
    # Started here, or RabbitMQ would leave a daemon behind.
    epmd = subprocess.Popen(["epmd"], env=environment, start_new_session=True)
    log = (home / "output").open("wb")
    server = subprocess.Popen(
        [str(RABBITMQ)], env=environment, stdout=log, stderr=log, start_new_session=True
    )
    try:
        wait_until(listens(port), timeout=90, what=f"RabbitMQ listens on {port}")
        url = f"amqp://guest:guest@127.0.0.1:{port}//"

        def answers() -> bool:
            try:
                with kombu.Connection(url, connect_timeout=2) as connection:
                    connection.ensure_connection(max_retries=1)
                    return True
            except OSError:
                return False

        wait_until(answers, timeout=60, what="RabbitMQ answers")
        yield url
    finally:
        stop(server)
        stop(epmd)
        log.close()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def pgbouncer_url(database_url: str) -> Iterator[str]:
    """The test's database through a pgbouncer in transaction mode with two server connections."""
    home = Path(tempfile.mkdtemp(prefix="dpgb-", dir="/tmp"))
    home.chmod(0o755)
    port = free_port()
    url = make_url(database_url)
    host = url.query.get("host") or url.host or "127.0.0.1"
    target = [f"host={host}", f"dbname={url.database}", f"user={url.username}"]
    if url.port or url.query.get("port"):
        target.append(f"port={url.port or url.query['port']}")
    if url.password:
        target.append(f"password={url.password}")
    (home / "users").write_text(f'"{url.username}" ""\n')
    (home / "pgbouncer.ini").write_text(
        f"[databases]\n{url.database} = {' '.join(target)}\n"
        "[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = any\nauth_file = {home}/users\n"
        "pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 200\n"
        # pgbouncer refuses what it cannot track per transaction; libpq's own is let through
        "ignore_startup_parameters = extra_float_digits\n"
    )
    command = ["/usr/sbin/pgbouncer", str(home / "pgbouncer.ini")]
    if os.geteuid() == 0:
        command[1:1] = ["-u", "nobody"]
    log = (home / "output").open("wb")
    server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(listens(port), timeout=20, what=f"pgbouncer listens on {port}")
        yield f"postgresql://{url.username}@127.0.0.1:{port}/{url.database}"
    finally:
        stop(server)
        log.close()
        shutil.rmtree(home, ignore_errors=True)
