"""The Celery application of a process: every broker setting, decided here once.

Two profiles. A *publisher* must answer soon: its time-outs bound what a dead or frozen broker can
cost a pass. A *worker* must notice a half-open connection, but may take longer for it. Messages
are hints (docs/protocols.md 1): they are acknowledged early, have no results and may be lost.
"""

from __future__ import annotations

import signal
import ssl
import warnings
from types import FrameType
from typing import Any, Final, Literal

from celery import Celery, signals
from celery.platforms import SecurityWarning
from celery.worker import state
from kombu import Exchange, Queue

from dispatcher.broker.messages import Manager, manager_queue
from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings

#: Before every key on Redis, so that a shared server can be told what is ours (ACL ``~dispatcher:*``).
KEY_PREFIX: Final = "dispatcher:"
#: Publishers of one process at once. The pool's own acquire time-out does not hold (a thread was
#: seen to hang past it), so :class:`dispatcher.broker.publish.Publisher` never lets more threads in.
POOL_LIMIT: Final = 4
#: Seconds until a message expires. Never less: the stamp is absolute and compared with the
#: consumer's clock, and a skew of seconds would drop short ones silently (docs/protocols.md 1.5).
EXPIRES: Final = 300
#: Seconds a publisher waits for one answer of the broker.
PUBLISH_TIMEOUT: Final = 2.0

Profile = Literal["publisher", "worker"]


def broker_url(settings: Settings) -> str:
    """The configured URL.

    Raises:
        ConfigurationError: none is set.
    """
    if settings.broker_url is None:
        raise ConfigurationError(
            "DISPATCHER_BROKER_URL: not set (dispatcher up starts an embedded broker)"
        )
    return settings.broker_url


def is_amqp(settings: Settings) -> bool:
    """Whether the broker is RabbitMQ."""
    return broker_url(settings).startswith("amqp")


def make_app(settings: Settings, *, profile: Profile) -> Celery:
    """A Celery application that knows the broker; it connects when it is first used.

    Args:
        settings: where the broker is.
        profile: which time-outs apply; see the module's text.

    Raises:
        ConfigurationError: no broker is set.
    """
    url = broker_url(settings)
    app = Celery("dispatcher", set_as_current=False)
    app.conf.update(
        broker_url=url,
        broker_connection_timeout=PUBLISH_TIMEOUT if profile == "publisher" else 4,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_pool_limit=POOL_LIMIT,
        broker_use_ssl=_tls(settings),
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_serializer="json",
        accept_content=["json"],
        result_accept_content=["json"],
        event_serializer="json",
        task_acks_late=False,
        task_reject_on_worker_lost=False,
        # retries are the publisher's own (publish.py): Celery's have no bound in time
        task_publish_retry=False,
        task_publish_retry_policy={"max_retries": 0},
        task_queues=[manager_queue_of(settings, manager) for manager in Manager],
        worker_prefetch_multiplier=1,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        # seldom: each new child leaves files of metrics behind, and memory has a bound of its own
        worker_max_tasks_per_child=20_000,
        worker_max_memory_per_child=300_000,
        **(_amqp(profile) if is_amqp(settings) else _redis(settings, profile)),
    )
    return app


def manager_queue_of(settings: Settings, manager: Manager) -> Queue:
    """The queue of a manager as it is declared.

    RabbitMQ has no set-if-absent for wake tokens: there the queue itself holds one trigger and
    drops older ones (docs/protocols.md 1.2).
    """
    name = manager_queue(manager)
    arguments = {"x-max-length": 1, "x-overflow": "drop-head"} if is_amqp(settings) else None
    return Queue(name, Exchange(name, type="direct"), routing_key=name, queue_arguments=arguments)


def _redis(settings: Settings, profile: Profile) -> dict[str, Any]:
    publisher = profile == "publisher"
    options: dict[str, Any] = {
        "socket_timeout": PUBLISH_TIMEOUT if publisher else 10,
        "socket_connect_timeout": PUBLISH_TIMEOUT if publisher else 5,
        "socket_keepalive": True,
        "health_check_interval": 5 if publisher else 10,
        "visibility_timeout": 3600,
        "global_keyprefix": KEY_PREFIX,
    }
    if settings.broker_url is not None and settings.broker_url.startswith("sentinel"):
        options["master_name"] = settings.broker_sentinel_master
    if publisher:
        options["max_retries"] = 0
    return {
        "broker_transport_options": options,
        "broker_channel_error_retry": True,  # READONLY after a fail-over
        "worker_disable_prefetch": True,
    }


def _amqp(profile: Profile) -> dict[str, Any]:
    if profile == "publisher":
        # read_timeout only here: a worker's connection is rightly silent for long
        options: dict[str, Any] = {
            "confirm_publish": True,
            "read_timeout": PUBLISH_TIMEOUT,
            "write_timeout": PUBLISH_TIMEOUT,
            "max_retries": 0,
        }
        return {"broker_transport_options": options, "broker_heartbeat": 0}
    return {
        "broker_transport_options": {"confirm_publish": True, "write_timeout": 10},
        "broker_heartbeat": 30,
    }


def _tls(settings: Settings) -> dict[str, Any] | None:
    """Certificates are always verified; without a CA file by the system's authorities."""
    scheme = broker_url(settings).split("://", 1)[0]
    ca_file = None if settings.broker_ca_file is None else str(settings.broker_ca_file)
    if scheme == "rediss":
        return {
            "ssl_cert_reqs": ssl.CERT_REQUIRED,
            "ssl_check_hostname": True,
            **({} if ca_file is None else {"ssl_ca_certs": ca_file}),
        }
    if scheme == "amqps":
        return {
            "cert_reqs": ssl.CERT_REQUIRED,
            "server_hostname": None,  # None: the URL's host
            **({} if ca_file is None else {"ca_certs": ca_file}),
        }
    return None


def start_worker(app: Celery, *, queue: str, name: str, pool: str = "solo", **options: Any) -> int:
    """Run a Celery worker of one slot in this process until it is told to stop.

    Gossip, mingle and event heartbeats are off: with 25 workers they were nine tenths of the CPU
    and all of the traffic, and nothing here uses them.

    Args:
        app: made with the profile ``worker``.
        queue: the one queue it consumes.
        name: shown in logs; ``%h`` is the host name.
        pool: ``solo``, or ``prefork`` where time limits must hold.
        options: passed on to Celery's worker.

    Returns:
        The exit code.
    """
    # logs.configure has been here: Celery's own set-up would double every line
    signals.setup_logging.connect(_leave_logging_alone)
    signals.worker_ready.connect(_end_quietly)
    # what root should not do with Celery is to accept pickled messages; this one takes JSON only
    warnings.simplefilter("ignore", SecurityWarning)
    worker = app.Worker(
        hostname=name,
        queues=[queue],
        pool=pool,
        concurrency=1,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="WARNING",
        quiet=True,
        **options,
    )
    worker.start()
    return int(worker.exitcode or 0)


def _leave_logging_alone(**_: Any) -> None:
    """A receiver of this signal is all that Celery looks for."""


def _end_quietly(**_: Any) -> None:
    """SIGTERM and SIGINT: the warm shutdown of Celery's own handlers, without what they print."""

    def end(_number: int, _frame: FrameType | None) -> None:
        state.should_stop = 0

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
