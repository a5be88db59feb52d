"""Structured logs: one line an event, as words for people or JSON for machines.

Records carry ``role`` and, where there is one, ``node``, ``job_id`` and ``dispatch_id``
(:func:`bound`). Values of variables and credentials are never passed to a logger; errors of the
database, which hold some, are written without them (dispatcher/error_text.py).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from structlog.typing import ExcInfo

from dispatcher import error_text
from dispatcher.settings import Settings


def configure(settings: Settings, *, role: str, node: str | None = None) -> None:
    """Set up logging of this process, once, at its start.

    Args:
        settings: level and form.
        role: ``api``, ``beat``, ``control``, ``agent`` …, written on every record.
        node: the node's name, for roles of a worker.
    """
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        error_text.without_values,
        structlog.processors.ExceptionRenderer(_rendered),
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # Foreign loggers that would write a line for every message or request.
    for noisy in ("celery", "kombu", "amqp", "uvicorn.access", "alembic", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    context = {"role": role} if node is None else {"role": role, "node": node}
    structlog.contextvars.bind_contextvars(**context)


def get(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


@contextmanager
def bound(**context: Any) -> Iterator[None]:
    """Put ``job_id``, ``dispatch_id`` … on every record written inside the block."""
    with structlog.contextvars.bound_contextvars(**context):
        yield


def in_short(error: BaseException) -> str:
    """An error in one line: its kind and its first line. Further ones of a driver may show values."""
    return error_text.in_short(error)


def _rendered(exc_info: ExcInfo) -> str:
    return error_text.with_traceback(exc_info[1])
