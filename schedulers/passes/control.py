"""``dispatcher control``: a small parent that keeps one worker for each manager, and the timer.

The parent has no connection and no thread: it forks its children from a process that has imported
everything, so that all queues are consumed within about two seconds.
"""

from __future__ import annotations

import gc
import mmap
import os
import shutil
import signal
from collections.abc import Callable
from typing import Final

from dispatcher import clock, logs
from dispatcher.broker.messages import Manager
from dispatcher.db.engine import make_engine
from dispatcher.errors import ConfigurationError
from dispatcher.health import Health
from dispatcher.settings import Settings
from schedulers.passes import manager_worker
from schedulers.passes.children import Child, fork
from schedulers.passes.start import await_schema, check_settings
from schedulers.passes.timer import Timer

log = logs.get(__name__)

#: Seconds from SIGTERM until what still runs is killed.
STOP_SECONDS: Final = 4.0
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


def run(settings: Settings) -> int:
    """Start the children and keep them running until told to end; the exit code.

    Raises:
        ConfigurationError: a setting is missing.
    """
    logs.configure(settings, role="control")
    check_settings(settings)
    return Control(settings).run()


class Control:
    """The parent: signals are blocked and waited for, so that nothing runs in a handler."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # two bytes shared over forks: passes look at the first one between windows; the second
        # one says that a child, or a child of one, found that this role must not go on
        self._flags = mmap.mmap(-1, 2)
        self._children = [
            *(Child(str(manager), self._worker(manager)) for manager in Manager),
            Child("timer", lambda: Timer(settings, self._stopping, self._end_unfit).run()),
        ]

    def run(self) -> int:
        """Check the schema in a child, then run the children."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        # what is imported by now is shared with the children and never written again
        gc.freeze()
        code = self._check()
        if code is not None:
            return code
        for child in self._children:
            child.start()
        log.info("control started", managers=[str(manager) for manager in Manager])
        while not self._told_to_end(timeout=0.5) and not self._unfit():
            self._reap()
            for child in self._children:
                if child.pid is None and clock.monotonic() >= child.due:
                    child.start()
        self._stop()
        return 2 if self._unfit() else 0

    def _worker(self, manager: Manager) -> Callable[[], int]:
        return lambda: manager_worker.run(self._settings, manager, self._stopping, self._end_unfit)

    def _stopping(self) -> bool:
        return self._flags[0] != 0

    def _unfit(self) -> bool:
        return self._flags[1] != 0

    def _end_unfit(self, error: ConfigurationError) -> None:
        """Called in a child: say why, once, and have the parent end with code 2."""
        if not self._unfit():
            self._flags[1] = 1
            log.error(str(error))

    def _check(self) -> int | None:
        """Wait for the database and check its schema, in a child; the code to exit with."""
        pid = fork(lambda: _check_schema(self._settings))
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                return code or None
            if self._told_to_end(timeout=0.5):
                os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)
                return 0

    def _told_to_end(self, *, timeout: float) -> bool:
        """Wait for a signal; the end of a child comes as one too."""
        received = signal.sigtimedwait(_SIGNALS, timeout)
        # by name: after a stop that outlasts the time-out, CPython answers what it never filled in
        return received is not None and received.si_signo in (signal.SIGTERM, signal.SIGINT)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for child in self._children:
                if child.pid == pid:
                    # its own children must not go on beside those of the next one
                    child.kill_group()
                    child.ended()
                    log.warning(
                        "a child ended",
                        child=child.name,
                        code=os.waitstatus_to_exitcode(status),
                        again_in=child.delay,
                    )

    def _stop(self) -> None:
        self._flags[0] = 1
        for child in self._children:
            child.signal(signal.SIGTERM)
        deadline = clock.monotonic() + STOP_SECONDS
        while any(child.pid for child in self._children) and clock.monotonic() < deadline:
            signal.sigtimedwait(_SIGNALS, 0.1)
            self._collect()
        for child in self._children:
            if child.pid is not None:
                log.warning("killed: it did not end in time", child=child.name)
                child.kill_group()
                os.waitpid(child.pid, 0)
        # the timer may have been killed by the signal in the middle of a look
        Health(self._settings, "control").close()
        shutil.rmtree(os.environ.get("PROMETHEUS_MULTIPROC_DIR", ""), ignore_errors=True)
        log.info("control stopped")

    def _collect(self) -> None:
        for child in self._children:
            if child.pid is not None and os.waitpid(child.pid, os.WNOHANG)[0]:
                child.pid = None


def _check_schema(settings: Settings) -> int:
    engine = make_engine(settings, application_name="dispatcher control")
    health = Health(settings, "control")
    try:
        # the timer serves it: a port that is taken must be known before any child is there
        health.check_port(settings.control_metrics_port)
        await_schema(engine, health, lambda: False)
    except ConfigurationError as error:
        log.error(str(error))
        return 2
    finally:
        engine.dispose()
    return 0
