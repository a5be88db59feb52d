"""Notifications that new events of a job are stored: one consumer thread for a process.

Pub/sub may lose anything. A follower subscribes, then reads, and looks every 2 s in any case
(docs/protocols.md 5.5).
"""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from celery import Celery
from kombu import Consumer, Queue

from dispatcher import logs
from dispatcher.broker.messages import VERSION
from dispatcher.broker.publish import LIVE
from dispatcher.metrics import MESSAGES_IGNORED

log = logs.get(__name__)

#: Seconds until the broker removes the queue of a listener that died.
_QUEUE_EXPIRES: Final = 300
_RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Notice:
    """Events up to counter ``stored`` can be read; ``final``: the job is final too."""

    stored: int
    final: bool


class Subscription:
    """The latest notice of one job; older ones are replaced, because only the newest matters."""

    def __init__(
        self, listener: LiveListener, job_id: int, on_notice: Callable[[Notice], None] | None
    ) -> None:
        self.job_id = job_id
        self._listener = listener
        self._on_notice = on_notice
        self._arrived = threading.Event()
        self._latest: Notice | None = None

    def get(self, timeout: float) -> Notice | None:
        """Wait for a notice that was not taken yet.

        Args:
            timeout: seconds.

        Returns:
            None when there was none in time: look at the database anyway.
        """
        if not self._arrived.wait(timeout):
            return None
        self._arrived.clear()
        return self._latest

    def put(self, notice: Notice) -> None:
        """Called by the listener's thread; a callback must not block."""
        self._latest = notice
        self._arrived.set()
        if self._on_notice is not None:
            self._on_notice(notice)

    def close(self) -> None:
        """End the subscription."""
        self._listener.unsubscribe(self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class LiveListener:
    """Receives the notifications of all jobs and hands them to this process's subscriptions.

    Args:
        app: made with the profile ``worker``, so that a silent exchange is no error.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._stop = threading.Event()
        self._listening = threading.Event()
        self._lock = threading.Lock()
        self._subscriptions: dict[int, list[Subscription]] = defaultdict(list)
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def start(self) -> None:
        """Start the thread; while the broker is away it tries again for ever."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=3)

    def wait_ready(self, timeout: float) -> bool:
        """Wait until notifications arrive; without the broker they do not."""
        return self._listening.wait(timeout)

    def subscribe(
        self, job_id: int, on_notice: Callable[[Notice], None] | None = None
    ) -> Subscription:
        """Notices of one job from now on.

        Args:
            job_id: the job.
            on_notice: called in the listener's thread as well; an event loop passes something
                around ``loop.call_soon_threadsafe``.
        """
        subscription = Subscription(self, job_id, on_notice)
        with self._lock:
            self._subscriptions[job_id].append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a subscription; more than once is harmless."""
        with self._lock:
            present = self._subscriptions.get(subscription.job_id, [])
            if subscription in present:
                present.remove(subscription)
            if not present:
                self._subscriptions.pop(subscription.job_id, None)

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                self._consume()
                failures = 0
            except Exception as error:
                # whatever it was, the thread must live: followers poll meanwhile
                if self._listening.is_set():
                    failures = 0
                self._listening.clear()
                if failures == 0:
                    log.warning("live notifications interrupted", error=repr(error))
                self._stop.wait(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
                failures += 1

    def _consume(self) -> None:
        """Consume until told to stop.

        Raises:
            Exception: the connection failed.
        """
        queue = Queue(
            f"live.{uuid.uuid4().hex}",
            LIVE,
            exclusive=True,
            auto_delete=True,
            durable=False,
            expires=_QUEUE_EXPIRES,
        )
        connection = self._app.connection_for_read(heartbeat=self._app.conf.broker_heartbeat)
        try:
            connection.ensure_connection(max_retries=0, timeout=5)
            with Consumer(connection.channel(), [queue], callbacks=[self._deliver], no_ack=True):
                # on Redis the subscription is made by the first look for events
                self._drain(connection, timeout=0.02)
                self._listening.set()
                while not self._stop.is_set():
                    self._drain(connection, timeout=1.0)
        finally:
            connection.collect(socket_timeout=0.5)

    @staticmethod
    def _drain(connection: Any, *, timeout: float) -> None:
        try:
            connection.drain_events(timeout=timeout)
        except TimeoutError:
            connection.heartbeat_check()  # RabbitMQ; nothing on Redis
            _check_subscription(connection)

    def _deliver(self, body: Any, message: Any) -> None:
        try:
            if body["v"] != VERSION:
                raise ValueError(body["v"])
            job_id = int(body["job_id"])
            notice = Notice(int(body["stored"]), bool(body["final"]))
        except (KeyError, TypeError, ValueError):
            MESSAGES_IGNORED.labels("live").inc()
            return
        with self._lock:
            subscriptions = list(self._subscriptions.get(job_id, ()))
        for subscription in subscriptions:
            subscription.put(notice)


def _check_subscription(connection: Any) -> None:
    """On Redis: ask a silent server for a sign of life; without answers the subscription is made anew.

    A worker's event loop does the same by a timer. Nobody does it for a consumer without that loop,
    and a subscription whose server is gone without a word would wait for ever.
    """
    cycle = getattr(connection.transport, "cycle", None)
    if cycle is not None:
        cycle.maybe_check_subclient_health()
