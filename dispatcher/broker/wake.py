"""Wake tokens: bursts of wake-ups become one message (docs/protocols.md 1.1).

The publisher commits, sets the token, then publishes; the manager deletes the token, then loads.
Whoever finds a living token may leave its wake-up out: a message was published after the token was
set, and the pass that takes it loads later than that. On RabbitMQ the queue's length does the same.
"""

from __future__ import annotations

from typing import Any, Final

from dispatcher.broker.celery_app import KEY_PREFIX
from dispatcher.broker.messages import Manager, manager_queue, wake_token

#: Milliseconds a token lives; the bound of what a publisher that died after setting it can hide.
TOKEN_MILLISECONDS: Final = 1000
#: Triggers kept in a manager's list on Redis while nobody consumes it.
TRIGGERS_KEPT: Final = 10


def has_tokens(channel: Any) -> bool:
    """Whether the broker behind a kombu channel can keep tokens (Redis)."""
    return bool(channel.connection.client.transport.driver_type == "redis")


def set_token(channel: Any, manager: Manager) -> bool:
    """Set the token; false when it is alive already, so that the wake-up can be left out."""
    if not has_tokens(channel):
        return True
    with channel.conn_or_acquire() as client:
        return bool(client.set(wake_token(manager), "1", nx=True, px=TOKEN_MILLISECONDS))


def delete_token(channel: Any, manager: Manager) -> None:
    """Delete the token: by the manager before it loads, by a publisher whose publish raised."""
    if has_tokens(channel):
        with channel.conn_or_acquire() as client:
            client.delete(wake_token(manager))


def bound_queue(channel: Any, manager: Manager) -> None:
    """Drop the oldest triggers of a manager that nobody consumes; one would be enough."""
    if has_tokens(channel):
        with channel.conn_or_acquire() as client:
            # LTRIM is not among the commands that kombu prefixes
            client.ltrim(KEY_PREFIX + manager_queue(manager), 0, TRIGGERS_KEPT - 1)


def ping(channel: Any) -> None:
    """Ask the broker for an answer; a channel of RabbitMQ was opened by one just now."""
    if has_tokens(channel):
        with channel.conn_or_acquire() as client:
            client.ping()
