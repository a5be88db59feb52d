"""What is asked of the agent by signals."""

from __future__ import annotations

import signal
from collections.abc import Callable

from dispatcher import processes


class Signals:
    """Counts what was asked of this process: SIGTERM, and SIGHUP when the parent died."""

    def __init__(self) -> None:
        self.count = 0
        self.parent_gone = False
        self.on_signal: Callable[[], None] = _nothing

    def asked(self) -> bool:
        """Whether the process is to end."""
        return self.count > 0 or self.parent_gone

    def install(self, parent: int | None) -> None:
        """Listen; SIGINT is for the parent, which decides.

        Args:
            parent: the process whose death lets this one detach; None: nobody's.
        """
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._stop)
        if parent is not None:
            signal.signal(signal.SIGHUP, self._parent_died)
            if not processes.die_with_parent(parent, signal.SIGHUP):
                self.parent_gone = True

    def _stop(self, *_: object) -> None:
        self.count += 1
        self.on_signal()

    def _parent_died(self, *_: object) -> None:
        self.parent_gone = True
        self.on_signal()


def _nothing() -> None:
    """Before there is a main loop to wake."""
