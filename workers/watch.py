"""When a running playbook is stopped or paused, and the doing of it.

Looked at between two reads of the playbook's output, several times a second; nothing in here
waits. Stopping is a ladder (docs/running.md): SIGTERM to ansible-playbook, SIGCONT to what is
paused, the grace, then SIGKILL to every descendant until none is left.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

from dispatcher import clock, processes
from workers import lease_file, process_tree
from workers.pty_child import PtyChild
from workers.run_dir import JobSpec, RunDir
from workers.wrapper import Board

#: Seconds between two looks at the lease, and between two signs of life.
PERIOD = 1.0
#: A paused playbook goes on when this part of the quota is in use.
RESUME_AT = 0.8
#: Reasons for which nothing is waited for.
AT_ONCE = frozenset({"fenced", "spool"})
_TAIL = 4096
#: Most characters of a question that are kept.
_QUESTION = 200
_MARKERS = re.compile(
    r"\x1b\[K(?:[A-Za-z0-9+/=]+\x1b\[\d+D)+\x1b\[K|\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][0-9A-Za-z]?"
)
_PROMPT = re.compile(r"[:?>]$|\b(?:password|passphrase|yes/no|y/n|press)\b", re.IGNORECASE)
#: A pause with a time: it ends by itself, whatever it shows meanwhile.
_TIMED = re.compile(r"^Pausing for \d+ seconds", re.MULTILINE)


def question_in(tail: str, asks: bool) -> str | None:
    """What a silent playbook waits for an answer to; None: it just works.

    Args:
        tail: the end of its output, with colors and ansible-runner's marks.
        asks: its terminal is in the state of a program that reads an answer.
    """
    visible = _MARKERS.sub("", tail).replace("\r", "")
    task = visible[max(visible.rfind("\nTASK ["), 0) :]
    if _TIMED.search(task):
        return None
    unfinished = visible.rpartition("\n")[2].strip()
    if not asks and not (unfinished and _PROMPT.search(unfinished)):
        return None
    lines = [line.strip() for line in visible.split("\n") if line.strip()]
    return lines[-1][:_QUESTION] if lines else "an answer"


class Watch:
    """One run's clocks, stop reasons and signals.

    Args:
        alive: the descriptor of ``alive``, touched every second.
        started_at: CLOCK_BOOTTIME seconds from which the time-out counts.
        spooled: bytes in the spool.
    """

    def __init__(
        self,
        run_dir: RunDir,
        spec: JobSpec,
        board: Board,
        *,
        alive: int,
        started_at: float,
        spooled: Callable[[], int],
    ) -> None:
        self._run_dir, self._spec, self._board = run_dir, spec, board
        self._alive, self._started_at, self._spooled = alive, started_at, spooled
        self._lease = Path(spec.lease_file)
        self._child: PtyChild | None = None
        self._next_second = 0.0
        self._quiet_since = clock.monotonic()
        self._tail = ""
        self._asked = ""
        self._shutdown = False
        self._terminated = False
        self._kill_at = 0.0
        self._paused_since: float | None = None
        self.stop: str | None = None
        self.prompt = ""
        #: Processes that took a SIGKILL from here.
        self.killed: set[int] = set()

    # -- what is told

    def attach(self, child: PtyChild) -> None:
        """The playbook's process runs."""
        self._child = child
        self._quiet_since = clock.monotonic()

    def output(self, text: str) -> None:
        """The playbook wrote something."""
        self._quiet_since = clock.monotonic()
        self._tail = (self._tail + text)[-_TAIL:]

    def asked(self, prompt: str) -> None:
        """The playbook asked for a variable."""
        self._asked = prompt or "a variable"

    def shut_down(self) -> None:
        """Somebody sent SIGTERM to the supervisor."""
        self._shutdown = True

    def spool_failed(self) -> None:
        """Events can no longer be kept."""
        self._begin("spool")

    # -- what is done

    def tick(self) -> None:
        """Look at everything that is due."""
        now = clock.monotonic()
        second = now >= self._next_second
        if second:
            self._next_second = now + PERIOD
            os.utime(self._alive)
            if self._board.fenced or lease_file.remaining(self._lease) <= 0:
                self._begin("fenced")
        if self.stop is None:
            reason = self._reason(now, second)
            if reason is not None:
                self._begin(reason)
        if self.stop is None:
            self._mind_quota(now)
        else:
            self._press(now)

    def _reason(self, now: float, second: bool) -> str | None:
        spec = self._spec
        requested = self._run_dir.stop_requested()
        if requested is not None:
            return requested if requested in ("fenced", "shutdown") else "cancel"
        if self._shutdown:
            return "shutdown"
        if spec.timeout and clock.boottime() - self._started_at > spec.timeout:
            return "timeout"
        if self._asked:
            self.prompt = self._asked
            return "waits_for_input"
        if self._paused_since is not None or self._child is None:
            return None
        quiet = now - self._quiet_since
        if spec.idle_timeout and quiet > spec.idle_timeout:
            return "idle"
        if second and quiet > spec.prompt_timeout and self._waits():
            return "waits_for_input"
        return None

    def _waits(self) -> bool:
        """Whether the silence is that of somebody who has asked a question."""
        question = question_in(self._tail, self._child is not None and self._child.asks())
        self.prompt = question or ""
        return question is not None

    # -- pausing

    def _mind_quota(self, now: float) -> None:
        quota = self._spec.spool_quota_bytes
        if self._child is None or self._spooled() <= quota:
            return
        kept = self._spooled() - self._run_dir.shipped()
        if self._paused_since is None and kept > quota:
            process_tree.stop_all(self._child.pid)
            self._paused_since = now
        elif self._paused_since is not None and kept <= quota * RESUME_AT:
            self._resume(now)

    def _resume(self, now: float) -> None:
        if self._paused_since is not None and self._child is not None:
            process_tree.continue_all(self._child.pid)
            self._quiet_since += now - self._paused_since
            self._paused_since = None

    # -- stopping

    def _begin(self, reason: str) -> None:
        """Start the ladder; a lapsed lease shortens one that is under way, and stays the reason."""
        if self.stop in AT_ONCE or (self.stop is not None and reason not in AT_ONCE):
            return
        self.stop = reason
        grace = 0.0 if reason in AT_ONCE else self._spec.stop_grace
        self._kill_at = clock.monotonic() + grace

    def _press(self, now: float) -> None:
        """One step of the ladder, repeated with each tick until the wrapper has ended."""
        if self._child is None or not self._child.isalive():
            return
        if now >= self._kill_at:
            left = processes.descendants(self._child.pid)
            self.killed.update(process_tree.send(left, signal.SIGKILL))
            os.kill(self._child.pid, signal.SIGCONT)
            if not left and now > self._kill_at + PERIOD:
                os.kill(self._child.pid, signal.SIGKILL)
        elif not self._terminated and self._board.main_pid:
            os.kill(self._board.main_pid, signal.SIGTERM)
            self._terminated = True
            self._resume(now)
