"""What a committed transaction owes is published here, bounded in time, and never raises.

A publish that raised may still arrive: nothing is ever undone for it. What was not sent is found by
the node's own poll, by beat and by recovery (docs/protocols.md 1.6).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from celery import Celery
from kombu import Exchange, Producer

from dispatcher import clock, logs
from dispatcher.broker import wake
from dispatcher.broker.celery_app import EXPIRES, PUBLISH_TIMEOUT
from dispatcher.broker.messages import (
    CANCEL_JOBS,
    LIVE_EXCHANGE,
    RUN_MANAGER,
    START_JOBS,
    Manager,
    Owed,
    batches,
    live_payload,
    manager_payload,
    manager_queue,
)
from dispatcher.metrics import PUBLISH_SECONDS, SUBMISSIONS, WAKES_COALESCED

log = logs.get(__name__)

#: A failure faster than this (seconds) says "refused" or "stale connection": trying costs nothing.
FAST_FAILURE: Final = 0.5
#: Seconds for which nothing is tried after a failure that took longer, so that callers in a row do
#: not wait for a frozen broker one by one.
HOLD_OFF: Final = 2.0
#: Seconds between two warnings that the broker fails.
SAY_EVERY: Final = 30.0
#: Seconds without live notifications after one failed; followers poll anyway.
LIVE_HOLD_OFF: Final = 5.0

LIVE: Final = Exchange(LIVE_EXCHANGE, type="fanout", durable=True, delivery_mode=1)

#: A message not sent yet: (kind for the metric, the sending itself).
_Message = tuple[str, Callable[[Producer], None]]


class Publisher:
    """Publishes over a pool of producers that is opened once and shared by the process's threads.

    Args:
        app: made with the profile ``publisher``.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._limit = int(app.conf.broker_pool_limit)
        self._slots = threading.BoundedSemaphore(self._limit)
        self._quiet_until = 0.0
        self._live_quiet_until = 0.0
        self._said_until = 0.0

    def round(self) -> Round:
        """One pass's, or one request's, dealings with the broker."""
        return Round(self)

    def warm(self) -> bool:
        """Open and try a connection, so that no publish after a commit has to."""
        return self.round().warm()

    def publish(self, owed: Owed) -> bool:
        """Send what is owed; see :meth:`Round.publish`."""
        return self.round().publish(owed)

    def trigger(self, manager: Manager, reason: str) -> bool:
        """Send a trigger whatever the wake token says: the floor under every wake-up."""
        return self.round().send_all([("wake", self._trigger(manager, reason, token=False))])

    def notify_live(self, job_id: int, stored: int, final: bool) -> None:
        """Say that events up to ``stored`` can be read; best effort."""
        if clock.monotonic() < self._live_quiet_until:
            return
        payload = live_payload(job_id, stored, final)

        def send(producer: Producer) -> None:
            producer.publish(
                payload,
                exchange=LIVE,
                routing_key="",
                declare=[LIVE],
                serializer="json",
                retry=False,
                confirm_timeout=PUBLISH_TIMEOUT,
            )

        try:
            self.attempt(send)
        except Exception as error:
            self._live_quiet_until = clock.monotonic() + LIVE_HOLD_OFF
            log.debug("live notification not sent", error=repr(error))

    def say_failed(self, what: str, error: Exception) -> None:
        """Write a failure to the log: seldom, because an outage makes one in every pass."""
        words = f"{type(error).__name__}: {error}"
        if clock.monotonic() < self._said_until:
            log.debug("the broker failed", what=what, error=words)
            return
        self._said_until = clock.monotonic() + SAY_EVERY
        log.warning("the broker failed", what=what, error=words)

    def is_quiet(self) -> bool:
        """Whether a slow failure was so recent that nothing is tried."""
        return clock.monotonic() < self._quiet_until

    def attempt(self, action: Callable[[Producer], None]) -> None:
        """Run ``action`` with a producer; once more when it failed fast, on a new connection.

        The second try replaces a pooled connection that the broker closed while it was idle.

        Raises:
            Exception: whatever the second try, or a slow first one, raised.
        """
        started = clock.monotonic()
        if not self._slots.acquire(timeout=PUBLISH_TIMEOUT):
            raise TimeoutError("every producer is in use")
        try:
            if self.is_quiet():
                raise TimeoutError("the broker did not answer another caller just now")
            # never blocks: there are no more callers here than producers in the pool
            producer = self._app.producer_pool.acquire(block=True)
            try:
                try:
                    action(producer)
                except Exception:
                    self._drop(producer)
                    if clock.monotonic() - started > FAST_FAILURE:
                        raise
                    action(producer)
            except Exception:
                self._drop(producer)
                raise
            finally:
                producer.release()
        except Exception:
            if clock.monotonic() - started > FAST_FAILURE:
                self._quiet_until = clock.monotonic() + HOLD_OFF
            raise
        finally:
            self._slots.release()

    @staticmethod
    def _drop(producer: Producer) -> None:
        """Drop the connection without a farewell: a frozen RabbitMQ would not answer to it."""
        connection = producer.connection
        connection.collect(socket_timeout=0.1)
        producer.revive(connection)

    def messages(self, owed: Owed) -> list[_Message]:
        """The messages that ``owed`` makes, in the order in which they are sent."""
        return [
            *(("start", self._task(START_JOBS, *b)) for b in batches(owed.starts)),
            *(("cancel", self._task(CANCEL_JOBS, *b)) for b in batches(owed.cancels)),
            *(("wake", self._trigger(m, "wake", token=True)) for m in sorted(owed.wakes)),
        ]

    def _task(self, name: str, queue: str, payload: dict[str, Any]) -> Callable[[Producer], None]:
        def send(producer: Producer) -> None:
            with PUBLISH_SECONDS.time():
                self._app.send_task(
                    name,
                    args=(payload,),
                    queue=queue,
                    producer=producer,
                    ignore_result=True,
                    add_to_parent=False,
                    expires=EXPIRES,
                    retry=False,
                    confirm_timeout=PUBLISH_TIMEOUT,
                    argsrepr="",
                    kwargsrepr="",
                )

        return send

    def _trigger(self, manager: Manager, reason: str, *, token: bool) -> Callable[[Producer], None]:
        send_task = self._task(
            RUN_MANAGER, manager_queue(manager), manager_payload(manager, reason)
        )

        def send(producer: Producer) -> None:
            if token and not wake.set_token(producer.channel, manager):
                WAKES_COALESCED.labels(str(manager)).inc()
                return
            started = clock.monotonic()
            try:
                send_task(producer)
            except Exception:
                # after a time-out the token has ended by itself, and asking again would wait again
                if token and clock.monotonic() - started < FAST_FAILURE:
                    wake.delete_token(producer.channel, manager)
                raise
            wake.bound_queue(producer.channel, manager)

        return send


class Round:
    """After the first failure of a round nothing more is tried: a dead broker costs one time-out."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._broken = publisher.is_quiet()

    @property
    def broken(self) -> bool:
        """Whether something failed, so that the rest is left to polls and beat."""
        return self._broken

    def warm(self) -> bool:
        """Open and try a connection."""
        return self._try(lambda producer: wake.ping(producer.channel), "warming up")

    def delete_token(self, manager: Manager) -> bool:
        """Delete a manager's wake token before it loads; also shows whether the broker answers."""
        return self._try(
            lambda producer: wake.delete_token(producer.channel, manager), "deleting a wake token"
        )

    def publish(self, owed: Owed) -> bool:
        """Send what a committed transaction owes: starts, cancels, wake-ups.

        Takes about 2 s at most, whatever the broker does, and never raises.

        Returns:
            Whether everything was sent; what was not is counted.
        """
        return self.send_all(self._publisher.messages(owed))

    def send_all(self, messages: list[_Message]) -> bool:
        """Send messages in order until one fails."""
        for kind, send in messages:
            if self._broken:
                SUBMISSIONS.labels(kind, "skipped").inc()
            elif self._try(send, f"publishing ({kind})"):
                SUBMISSIONS.labels(kind, "sent").inc()
            else:
                SUBMISSIONS.labels(kind, "failed").inc()
        return not self._broken

    def _try(self, action: Callable[[Producer], None], what: str) -> bool:
        if self._broken:
            return False
        try:
            self._publisher.attempt(action)
        except Exception as error:
            # whatever it was: a failed publish must never reach a caller that has committed
            self._broken = True
            self._publisher.say_failed(what, error)
            return False
        return True
