"""Passes of a short process of their own: how control's timer runs managers without a broker."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence

from dispatcher import logs
from dispatcher.broker.messages import Manager
from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings
from schedulers.passes.manager_worker import trigger
from schedulers.passes.start import check_settings
from schedulers.passes.works import make_runner


def run(settings: Settings, managers: Sequence[str]) -> int:
    """Run each manager once; the exit code: 1 when a pass failed.

    Raises:
        ConfigurationError: an unknown manager, or a setting is missing.
    """
    unknown = sorted(set(managers) - {str(manager) for manager in Manager})
    if unknown:
        raise ConfigurationError(f"no such manager: {', '.join(unknown)}")
    logs.configure(settings, role="pass")
    check_settings(settings)
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: ending.set())
    runner = make_runner(settings, name="single pass", stopping=ending.is_set)
    results = [trigger(runner, Manager(name)) for name in managers if not ending.is_set()]
    return 1 if "error" in results else 0
