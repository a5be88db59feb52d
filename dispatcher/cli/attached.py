"""A command that stays with a job until it has ended: prints its log, obeys Ctrl-C.

The log is read by a thread; this one prints and watches for signals, so that a signal never cuts
a line or an event in two.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dispatcher.cli import output
from dispatcher.cli.exit_codes import DETACHED
from dispatcher.client.answers import Job, JobEvent
from dispatcher.client.client import Client
from dispatcher.client.follow import Interruption, Update, follow
from dispatcher.errors import DispatcherError, NotCancelable

#: Seconds that a server may be away before a follower gives up; longer than a node's own patience.
PATIENCE = 330.0
#: Seconds between two looks at the signals.
_LOOK = 0.1
#: Updates read ahead of the printing.
_READ_AHEAD = 1000


class Signals:
    """SIGINT and SIGTERM, counted while the block lasts."""

    def __init__(self) -> None:
        self.count = 0

    def _count(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1

    @contextmanager
    def counted(self) -> Iterator[Signals]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._count) for number in numbers}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def stay_with(client: Client, job_id: int, *, as_json: bool, cancel_on_interrupt: bool) -> int:
    """Print a job's log until it has ended.

    Args:
        as_json: every update as one JSON object a line on stdout.
        cancel_on_interrupt: the first signal cancels and the second detaches; else the first
            detaches.

    Returns:
        The exit code of the job's outcome, or DETACHED.
    """
    updates: queue.Queue[Update | Exception | None] = queue.Queue(_READ_AHEAD)
    reader = threading.Thread(
        target=_read, args=(client, job_id, updates), name="follow", daemon=True
    )
    screen = _Screen(as_json)
    obeyed = 0
    with Signals().counted() as signals:
        reader.start()
        while True:
            if signals.count > obeyed:
                obeyed += 1
                if not cancel_on_interrupt or obeyed > 1:
                    now = screen.job_id or job_id
                    output.say(f"detached; job {now} goes on: dispatcher jobs follow {now}")
                    return DETACHED
                _cancel(client, screen.job_id or job_id)
            try:
                update = updates.get(timeout=_LOOK)
            except queue.Empty:
                continue
            if isinstance(update, Exception):
                raise update
            if update is None:
                break
            screen.show(update)
    screen.end()
    assert screen.job is not None
    if not as_json:
        output.say(recap(client, screen.job))
    return screen.job.exit_code


def _read(client: Client, job_id: int, updates: queue.Queue[Update | Exception | None]) -> None:
    with Client(client.connection.another(patience=PATIENCE)) as own:
        try:
            for update in follow(own, job_id):
                updates.put(update)
            updates.put(None)
        except Exception as error:  # raised again by who prints
            updates.put(error)


def _cancel(client: Client, job_id: int) -> None:
    output.say(f"canceling job {job_id} and waiting for its end; Ctrl-C again detaches")
    try:
        # not tried for long: a second Ctrl-C is obeyed only after it
        with Client(client.connection.another(patience=5.0)) as own:
            _cancel_newest(own, job_id)
    except NotCancelable:
        output.say(f"job {job_id} has ended already")
    except DispatcherError as error:
        output.say(f"the cancel could not be asked for: {error}")


def _cancel_newest(client: Client, job_id: int) -> None:
    """Cancel the job, or the one that repeats it since it was lost.

    Raises:
        NotCancelable: it has ended, and nothing repeats it.
    """
    while True:
        try:
            client.cancel(job_id)
            return
        except NotCancelable:
            retry = client.job(job_id).retried_by
            if retry is None:
                raise
            job_id = retry


class _Screen:
    """What has been shown, so that a state is told once."""

    def __init__(self, as_json: bool) -> None:
        self.job: Job | None = None
        self._as_json = as_json
        self._told = ""
        self._log = output.Log()

    def show(self, update: Update) -> None:
        if isinstance(update, Interruption):
            output.say(f"{update.reason}; trying again")
            return
        if isinstance(update, Job):
            self.job = update
            if not self._as_json:
                if update.retried_by is not None:
                    self._log.end()
                self._tell(update)
        if self._as_json:
            output.print_json(update.raw)
        elif isinstance(update, JobEvent):
            self._log.write(update)

    @property
    def job_id(self) -> int | None:
        """The job that was shown last, or the one that repeats it; None: nothing was shown."""
        return None if self.job is None else self.job.retried_by or self.job.id

    def end(self) -> None:
        """Everything has been shown."""
        self._log.end()

    def _tell(self, job: Job) -> None:
        words = state_in_words(job)
        if words and words != self._told:
            output.say(words)
            self._told = words


def state_in_words(job: Job) -> str:
    """What a job that has not ended waits for or does; empty while nothing is known yet."""
    if job.status == "pending":
        return f"job {job.id} is pending: {job.explanation}" if job.explanation else ""
    if job.status == "running":
        return f"job {job.id} runs on {job.node}"
    if job.retried_by is not None:
        return f"job {job.id} was lost with node {job.node}; job {job.retried_by} repeats it"
    return ""


def recap(client: Client, job: Job) -> str:
    """One line: how the job ended, where, how long it ran, and what became of its hosts."""
    words = f"job {job.id} {job.status}"
    if job.outcome not in ("", job.status):
        words += f" ({job.outcome})"
    if job.started:
        words += f" after {job.elapsed:.1f} s on {job.node}"
    hosts = _hosts(client, job.id)
    if hosts:
        words += f": {hosts}"
    if job.explanation:
        words += f": {job.explanation}"
    if job.retried_by is not None:
        words += f"; job {job.retried_by} repeats it"
    return words


def _hosts(client: Client, job_id: int) -> str:
    """Counts of hosts; empty when there are none, or they cannot be had any more."""
    conditions = {"changed": {"changed__gt": 0}, "failed": {"failures__gt": 0}}
    conditions["unreachable"] = {"dark__gt": 0}
    try:
        total, _ = client.host_summaries(job_id, limit=0)
        counts = {
            word: client.host_summaries(job_id, limit=0, filters=condition)[0]
            for word, condition in conditions.items()
            if total
        }
    except DispatcherError:
        return ""
    if not total:
        return ""
    parts = [f"{total} host{'s' if total != 1 else ''}"]
    return ", ".join([*parts, *(f"{count} {word}" for word, count in counts.items())])
