"""The broker's half on RabbitMQ: confirmed, bounded, one trigger for each manager, live notices."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import kombu
import pytest
from sqlalchemy import Engine

from dispatcher.broker.celery_app import PUBLISH_TIMEOUT, make_app
from dispatcher.broker.live import LiveListener
from dispatcher.broker.messages import Dispatch, Manager, Owed, wake
from dispatcher.broker.publish import Publisher
from dispatcher.settings import Settings
from tests.factories import make_job, make_node
from tests.passes import changed, statuses, submitted
from tests.roles import children_of, role
from tests.waiting import wait_until

#: A broker that does not answer costs one time-out: fewer seconds than two.
FROZEN_BOUND = 2 * PUBLISH_TIMEOUT


@pytest.fixture
def rabbit_settings(rabbitmq: str, settings: Settings) -> Iterator[Settings]:
    changed_settings = settings.model_copy(update={"broker_url": rabbitmq})
    yield changed_settings
    app = make_app(changed_settings, profile="publisher")
    with app.connection_for_read() as connection, connection.channel() as channel:
        for name in ("node.n1", *(f"schedulers.{m}" for m in Manager)):
            # emptied, not deleted: publishers of other tests know it as declared
            queue = app.amqp.queues[name](channel)
            queue.declare()
            queue.purge()


def publisher_of(settings: Settings) -> Publisher:
    return Publisher(make_app(settings, profile="publisher"))


def length(url: str, queue: str) -> int:
    with kombu.Connection(url) as connection, connection.channel() as channel:
        return int(channel.queue_declare(queue, passive=True).message_count)


def starts(count: int) -> Owed:
    return Owed(starts=tuple(Dispatch(n, uuid.uuid4(), "n1") for n in range(1, count + 1)))


def beam() -> int:
    """The server's process, a descendant of this one."""
    return next(
        pid
        for pid in children_of(os.getpid())
        if Path(f"/proc/{pid}/comm").read_text().startswith("beam")
    )


def test_starts_arrive_and_a_manager_has_one_trigger_however_often_it_is_woken(
    rabbit_settings: Settings,
) -> None:
    publisher = publisher_of(rabbit_settings)
    for _ in range(5):
        assert publisher.publish(starts(120) + wake(Manager.TASK))
    assert length(str(rabbit_settings.broker_url), "node.n1") == 10
    assert length(str(rabbit_settings.broker_url), "schedulers.task") == 1


def test_a_frozen_broker_costs_a_round_one_time_out(rabbit_settings: Settings) -> None:
    publisher = publisher_of(rabbit_settings)
    assert publisher.warm()
    pid = beam()
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert not publisher.publish(starts(300) + wake(Manager.TASK))
        assert time.monotonic() - began < FROZEN_BOUND
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: publisher.publish(starts(1)))


def test_a_connection_that_the_broker_closed_is_replaced_without_a_failure(
    rabbit_settings: Settings,
) -> None:
    publisher = publisher_of(rabbit_settings)
    assert publisher.publish(starts(1))
    with publisher._app.producer_pool.acquire(block=True) as producer:
        producer.connection.connection.transport.sock.shutdown(2)
    assert publisher.publish(starts(1))
    assert length(str(rabbit_settings.broker_url), "node.n1") == 2


def test_live_notices_arrive(rabbit_settings: Settings) -> None:
    publisher = publisher_of(rabbit_settings)
    listener = LiveListener(make_app(rabbit_settings, profile="worker"))
    listener.start()
    try:
        assert listener.wait_ready(10)
        with listener.subscribe(7) as subscription:
            publisher.notify_live(8, 1, False)
            publisher.notify_live(7, 12, True)
            notice = subscription.get(5)
        assert notice is not None
        assert (notice.stored, notice.final) == (12, True)
    finally:
        listener.stop()


def test_jobs_are_started_by_control_and_beat(rabbit_settings: Settings, engine: Engine) -> None:
    settings = rabbit_settings.model_copy(update={"manager_period": 0.5, "recovery_period": 0.5})
    with role(settings, "control") as control, role(settings, "beat"):
        with changed(engine) as connection:
            make_node(connection)
            make_job(connection, dependencies_processed=False)
        wait_until(lambda: statuses(engine) == {"waiting": 1}, timeout=60)
        wait_until(lambda: submitted(settings, "n1"), timeout=20)
        assert "Traceback" not in control.log
