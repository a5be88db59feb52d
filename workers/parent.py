"""The worker's parent: starts agent and Celery worker, and starts them again when they die.

No database connection, no threads: there is nothing in it that could fail. What a child's death means
for playbooks is the agent's matter; its restart takes them over again.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dispatcher import clock, logs
from dispatcher.settings import Settings
from workers import handover

NOT_FIT: Final = 2
#: Seconds before a restart: the first at once, then longer while a child does not stay up.
_BACKOFF: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
_LOOK_EVERY: Final = 0.25
#: Seconds after which a child counts as staying up.
_STEADY: Final = 30.0
#: Seconds that the Celery worker has to end: it holds nothing that would be missed.
_CELERY_PATIENCE: Final = 2.0


@dataclass
class _Child:
    role: str
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    failures: int = 0
    due: float = field(default=0.0)

    def start(self) -> None:
        """Start it, in a process group of its own: a Ctrl-C is for the parent alone."""
        self.began = clock.monotonic()
        self.process = subprocess.Popen(
            [*_python(), "-m", "workers.app", self.role, "--parent", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            process_group=0,
        )

    def code(self) -> int | None:
        """The exit code once it has ended; None while it lives or was never started."""
        return None if self.process is None else self.process.poll()

    def plan_restart(self) -> float:
        """Note its end; seconds until it is started again."""
        if clock.monotonic() - self.began > _STEADY:
            self.failures = 0
        delay = _BACKOFF[min(self.failures, len(_BACKOFF) - 1)]
        self.failures += 1
        self.process = None
        self.due = clock.monotonic() + delay
        return delay

    def signal(self, signum: signal.Signals) -> None:
        """Pass a signal on, if it lives."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signum)

    @property
    def lives(self) -> bool:
        """Whether the process is there."""
        return self.process is not None and self.process.poll() is None


def _python() -> list[str]:
    """This interpreter; where it was told not to import from the working directory, so again."""
    return [sys.executable, *(["-P"] if sys.flags.safe_path else [])]


class Parent:
    """The loop around two children."""

    def __init__(self, data_dir: Path) -> None:
        self._log = logs.get(__name__)
        self._data_dir = data_dir
        self._agent = _Child("agent")
        self._celery = _Child("celery")
        self._asked = 0
        self._passed_on = 0
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> int:
        """Until SIGTERM or SIGINT, or until the agent says that it cannot work here."""
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._agent.start()
        while True:
            self._wait()
            code = self._agent.code()
            if code == NOT_FIT or (code is not None and self._asked):
                return self._finish(code)
            self._pass_on()
            self._restart()

    def _stop(self, *_: object) -> None:
        self._asked += 1

    def _wait(self) -> None:
        select.select([self._read], [], [], _LOOK_EVERY)
        try:
            while os.read(self._read, 512):
                pass
        except BlockingIOError:
            pass

    def _pass_on(self) -> None:
        """The agent knows the stop policy; nothing is handed over to it meanwhile."""
        if self._asked and not self._agent.lives and self._agent.process is None:
            self._agent.start()  # between two restarts: playbooks may be running
        while self._passed_on < self._asked:
            if self._passed_on == 0:
                self._celery.signal(signal.SIGTERM)
            self._passed_on += 1
            self._agent.signal(signal.SIGTERM)

    def _restart(self) -> None:
        for child in (self._agent, self._celery):
            if self._asked and child is self._celery:
                continue
            code = child.code()
            if code is not None:
                delay = child.plan_restart()
                self._log.error("a child ended", child=child.role, code=code, restart_in=delay)
            if child.process is None and clock.monotonic() >= child.due and self._may_start(child):
                child.start()

    def _may_start(self, child: _Child) -> bool:
        """Messages are not taken from the queue before there is an agent to hand them to."""
        return child is self._agent or (self._data_dir / handover.SOCKET_NAME).exists()

    def _finish(self, code: int) -> int:
        self._celery.signal(signal.SIGTERM)
        process = self._celery.process
        if process is not None:
            try:
                process.wait(_CELERY_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return NOT_FIT if code == NOT_FIT else 0


def run(settings: Settings, parent: int | None) -> int:
    """Run a worker node until it is told to stop.

    Args:
        parent: not used: this process has none of ours.
    """
    logs.configure(settings, role="worker")
    return Parent(settings.data_dir).run()
