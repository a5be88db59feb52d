"""Publishing after the commit: bounded whatever the broker does, and without the database."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from prometheus_client import REGISTRY

from dispatcher import settings as settings_module
from dispatcher.broker import publish
from dispatcher.broker.celery_app import KEY_PREFIX, POOL_LIMIT, PUBLISH_TIMEOUT, make_app
from dispatcher.broker.messages import Dispatch, Manager, Owed, wake
from dispatcher.broker.publish import Publisher
from dispatcher.embedded.valkey import EmbeddedValkey

#: A broker that does not answer costs one time-out (docs/protocols.md 1): fewer seconds than two.
FROZEN_BOUND = 2 * PUBLISH_TIMEOUT


@pytest.fixture
def own_valkey(data_dir: Path) -> Iterator[EmbeddedValkey]:
    """A server of this test's own, to be frozen and stopped."""
    server = EmbeddedValkey(data_dir / "own", tcp=True, durable=False)
    server.start()
    yield server
    send(server, signal.SIGCONT)
    server.stop()


def send(server: EmbeddedValkey, number: signal.Signals) -> None:
    mark = server.process.mark
    if mark is not None:
        os.kill(mark.pid, number)


def publisher_of(url: str) -> Publisher:
    return Publisher(make_app(settings_module.load(broker_url=url), profile="publisher"))


def starts(count: int, node: str = "n1") -> Owed:
    return Owed(starts=tuple(Dispatch(n, uuid.uuid4(), node) for n in range(1, count + 1)))


def length(broker_url: str, queue: str) -> int:
    return int(redis.Redis.from_url(broker_url).llen(KEY_PREFIX + queue))  # type: ignore[arg-type]


def counted(kind: str, result: str) -> float:
    labels = {"kind": kind, "result": result}
    return REGISTRY.get_sample_value("dispatcher_submissions_total", labels) or 0.0


def coalesced() -> float:
    labels = {"manager": "task"}
    return REGISTRY.get_sample_value("dispatcher_wakes_coalesced_total", labels) or 0.0


def test_starts_go_in_messages_of_at_most_a_hundred_to_their_nodes_queues(broker_url: str) -> None:
    owed = starts(250) + starts(3, node="n2")
    assert publisher_of(broker_url).publish(owed)
    assert (length(broker_url, "node.n1"), length(broker_url, "node.n2")) == (3, 1)


def test_a_burst_of_wake_ups_is_one_message(broker_url: str) -> None:
    publisher = publisher_of(broker_url)
    before = coalesced()
    for _ in range(20):
        assert publisher.publish(wake(Manager.TASK))
    assert length(broker_url, "schedulers.task") <= 2  # a second token, on a very slow machine
    assert coalesced() - before >= 18


def test_after_the_token_is_deleted_a_wake_up_is_sent_again(broker_url: str) -> None:
    publisher = publisher_of(broker_url)
    publisher.publish(wake(Manager.TASK))
    assert publisher.round().delete_token(Manager.TASK)
    publisher.publish(wake(Manager.TASK))
    assert length(broker_url, "schedulers.task") == 2


def test_a_trigger_is_sent_whatever_the_token_says(broker_url: str) -> None:
    publisher = publisher_of(broker_url)
    publisher.publish(wake(Manager.TASK))
    assert publisher.trigger(Manager.TASK, "beat")
    assert length(broker_url, "schedulers.task") == 2


def test_a_manager_that_nobody_runs_does_not_fill_the_broker(broker_url: str) -> None:
    publisher = publisher_of(broker_url)
    for _ in range(30):
        publisher.trigger(Manager.TASK, "beat")
    assert length(broker_url, "schedulers.task") == 10


def test_a_token_whose_message_was_refused_is_deleted(broker_url: str) -> None:
    """A queue that is no list makes exactly the publish fail."""
    client = redis.Redis.from_url(broker_url)
    client.set(f"{KEY_PREFIX}schedulers.task", "not a list")
    publisher = publisher_of(broker_url)
    assert not publisher.publish(wake(Manager.TASK))
    assert client.get(f"{KEY_PREFIX}wake:task") is None
    client.delete(f"{KEY_PREFIX}schedulers.task")
    assert publisher.publish(wake(Manager.TASK))


def test_a_refused_broker_is_asked_once_and_the_rest_of_the_round_is_skipped() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    publisher = publisher_of(f"redis://127.0.0.1:{port}/0")
    failed, skipped = counted("start", "failed"), counted("start", "skipped")
    assert not publisher.publish(starts(500) + wake(Manager.TASK))
    assert counted("start", "failed") == failed + 1
    assert counted("start", "skipped") == skipped + 4


def test_a_frozen_broker_costs_a_round_one_time_out(own_valkey: EmbeddedValkey) -> None:
    publisher = publisher_of(own_valkey.url())
    assert publisher.warm()
    send(own_valkey, signal.SIGSTOP)
    began = time.monotonic()
    work = publisher.round()
    assert not work.delete_token(Manager.TASK)
    assert not work.publish(starts(300) + wake(Manager.TASK, Manager.WORKFLOW))
    assert time.monotonic() - began < FROZEN_BOUND
    began = time.monotonic()
    assert not publisher.publish(starts(300))
    assert time.monotonic() - began < PUBLISH_TIMEOUT, "the next caller does not wait for it again"


def test_a_broker_that_freezes_between_token_and_message_costs_one_time_out(
    own_valkey: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = publisher_of(own_valkey.url())
    assert publisher.warm()
    set_token = publish.wake.set_token

    def set_and_freeze(channel: object, manager: Manager) -> bool:
        was_set = set_token(channel, manager)
        send(own_valkey, signal.SIGSTOP)
        return was_set

    monkeypatch.setattr(publish.wake, "set_token", set_and_freeze)
    began = time.monotonic()
    assert not publisher.publish(wake(Manager.TASK))
    assert time.monotonic() - began < FROZEN_BOUND


def test_more_threads_than_producers_wait_no_longer_than_one_time_out(
    own_valkey: EmbeddedValkey,
) -> None:
    publisher = publisher_of(own_valkey.url())
    assert publisher.warm()
    send(own_valkey, signal.SIGSTOP)
    took: list[float] = []

    def run() -> None:
        began = time.monotonic()
        publisher.publish(starts(1))
        took.append(time.monotonic() - began)

    threads = [threading.Thread(target=run) for _ in range(4 * POOL_LIMIT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(took) == 4 * POOL_LIMIT
    assert max(took) < FROZEN_BOUND


def test_a_broker_that_comes_back_is_used_again(own_valkey: EmbeddedValkey) -> None:
    publisher = publisher_of(own_valkey.url())
    assert publisher.publish(starts(1))
    own_valkey.stop()
    assert not publisher.publish(starts(1))
    own_valkey.start()
    assert publisher.publish(starts(1)), "the pool's dead connection is replaced"


def test_threads_share_the_pool(broker_url: str) -> None:
    publisher = publisher_of(broker_url)
    results: list[bool] = []
    threads = [
        threading.Thread(
            target=lambda: results.extend(publisher.publish(starts(1)) for _ in range(20))
        )
        for _ in range(3 * POOL_LIMIT)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [True] * 60 * POOL_LIMIT
    assert length(broker_url, "node.n1") == 60 * POOL_LIMIT
    clients = [
        c for c in redis.Redis.from_url(broker_url).client_list() if c["lib-name"] == "redis-py"
    ]
    assert len(clients) < 200


def test_a_socket_url_works_for_messages_and_tokens(data_dir: Path) -> None:
    server = EmbeddedValkey(data_dir / "socket", durable=False)
    url = server.start()
    try:
        assert url.startswith("redis+socket://")
        publisher = publisher_of(url)
        for _ in range(3):
            assert publisher.publish(wake(Manager.TASK) + starts(1))
        socket_path = url.removeprefix("redis+socket://").partition("?")[0]
        client = redis.Redis(unix_socket_path=socket_path)
        assert client.llen(f"{KEY_PREFIX}schedulers.task") == 1
        assert client.llen(f"{KEY_PREFIX}node.n1") == 3
    finally:
        server.stop()
