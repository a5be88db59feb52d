"""What a node tells others after a commit, over a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from dispatcher import settings as settings_module
from dispatcher.broker.celery_app import KEY_PREFIX, make_app
from dispatcher.broker.live import LiveListener, Notice
from dispatcher.broker.messages import Manager, manager_queue, wake
from dispatcher.broker.publish import Publisher
from dispatcher.settings import Settings
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


def test_a_broker_that_is_away_is_noticed_and_holds_up_nobody(settings: Settings) -> None:
    given = settings.model_dump(exclude_unset=True) | {"broker_url": "redis://127.0.0.1:1/0"}
    away = settings_module.load(**given)
    courier = Courier(Publisher(make_app(away, profile="publisher")))
    courier.start()
    wait_until(lambda: not courier.broker_reachable)
    courier.owe(wake(Manager.TASK))
    courier.live(1, 1, True)
    courier.stop()
