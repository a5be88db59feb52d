"""The records of this process as a role would write them, for one test."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from dispatcher import logs
from dispatcher.settings import Settings


@contextmanager
def configured(settings: Settings, *, role: str = "api", node: str | None = None) -> Iterator[None]:
    """Logging set up as at a role's start (on stderr); afterwards as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure(settings, role=role, node=node)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.contextvars.clear_contextvars()
        structlog.reset_defaults()
