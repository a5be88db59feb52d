"""Child processes of control: forked from a preloaded parent, restarted, never left behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dispatcher import clock
from dispatcher.error_text import with_traceback
from dispatcher.processes import die_with_parent

#: Seconds before a child is started again: the first time, and at most.
_BACKOFF: Final = (0.1, 10.0)
#: A child that lived this long (seconds) starts again without delay.
_LIVED_WELL: Final = 30.0


@dataclass
class Child:
    """A process that is kept running.

    Attributes:
        name: for logs.
        main: what it runs; the exit code.
        due: when it is to be started again (monotonic clock).
    """

    name: str
    main: Callable[[], int]
    pid: int | None = None
    started: float = 0.0
    due: float = 0.0
    delay: float = 0.0

    def start(self) -> None:
        """Fork; only from a process without threads and connections."""
        self.started = clock.monotonic()
        self.pid = fork(self.main)

    def ended(self) -> None:
        """Note the end, and when to start again: sooner after a long life."""
        self.pid = None
        lived = clock.monotonic() - self.started
        first, longest = _BACKOFF
        self.delay = first if lived >= _LIVED_WELL else min(max(first, self.delay * 2), longest)
        self.due = clock.monotonic() + self.delay

    def signal(self, number: signal.Signals) -> None:
        """Signal the child alone."""
        if self.pid is not None:
            os.kill(self.pid, number)

    def kill_group(self) -> None:
        """Kill the child with everything that it started."""
        if self.pid is not None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def fork(main: Callable[[], int]) -> int:
    """Run ``main`` in a child with a process group of its own; the pid."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        # killed: whoever would see to it that a child which does not end is killed is gone
        if not die_with_parent(parent, signal.SIGKILL):
            os._exit(1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        code = main()
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 1
    except BaseException as error:
        print(with_traceback(error), file=sys.stderr, flush=True)
    finally:
        # no clean-up of what belongs to the parent
        os._exit(code)
