"""What a node tells others after a commit, over a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from sqlalchemy.engine import make_url

from dispatcher import settings as settings_module
from dispatcher.broker.celery_app import KEY_PREFIX, make_app
from dispatcher.broker.live import LiveListener, Notice
from dispatcher.broker.messages import Manager, manager_queue, wake
from dispatcher.broker.publish import Publisher
from dispatcher.settings import Settings
from tests.tcp_proxy import TcpProxy
from tests.waiting import wait_until
from workers.courier import Courier


@pytest.fixture
def listener(settings: Settings) -> Iterator[LiveListener]:
    made = LiveListener(make_app(settings, profile="worker"))
    made.start()
    assert made.wait_ready(20)
    yield made
    made.stop()


def test_followers_hear_of_new_events_and_managers_are_woken(
    settings: Settings, listener: LiveListener
) -> None:
    courier = Courier(Publisher(make_app(settings, profile="publisher")))
    courier.start()
    with listener.subscribe(7) as notices:
        courier.live(7, 3, False)
        assert notices.get(10) == Notice(3, False)
        courier.live(7, 5, True)
        assert notices.get(10) == Notice(5, True)
    courier.owe(wake(Manager.TASK))
    courier.stop()
    assert settings.broker_url is not None
    client = redis.Redis.from_url(settings.broker_url)
    assert client.llen(KEY_PREFIX + manager_queue(Manager.TASK)) == 1
    client.close()


def test_a_subscription_whose_broker_is_gone_without_a_word_is_made_anew(
    settings: Settings, broker_url: str
) -> None:
    """A balancer that keeps the client's side open: a reader alone would wait for ever."""
    url = make_url(broker_url)
    assert url.host is not None
    assert url.port is not None
    with TcpProxy((url.host, url.port)) as proxy:
        through = url.set(port=proxy.port).render_as_string(hide_password=False)
        app = make_app(settings.model_copy(update={"broker_url": through}), profile="worker")
        app.conf.broker_transport_options["health_check_interval"] = 1
        listener = LiveListener(app)
        listener.start()
        publisher = Publisher(make_app(settings, profile="publisher"))
        try:
            assert listener.wait_ready(20)
            proxy.abandon()
            with listener.subscribe(7) as notices:

                def arrives() -> Notice | None:
                    publisher.notify_live(7, 3, False)
                    return notices.get(0.1)

                assert wait_until(arrives) == Notice(3, False)
        finally:
            listener.stop()


def test_a_broker_that_is_away_is_noticed_and_holds_up_nobody(settings: Settings) -> None:
    given = settings.model_dump(exclude_unset=True) | {"broker_url": "redis://127.0.0.1:1/0"}
    away = settings_module.load(**given)
    courier = Courier(Publisher(make_app(away, profile="publisher")))
    courier.start()
    wait_until(lambda: not courier.broker_reachable)
    courier.owe(wake(Manager.TASK))
    courier.live(1, 1, True)
    courier.stop()
