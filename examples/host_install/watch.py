"""Reading jobs' statuses several times a second, and showing them: live, or as lines."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.table import Table

from dispatcher import clock
from dispatcher.client.answers import Job
from dispatcher.client.connection import Connection
from dispatcher.client.errors import ServerUnreachable

#: Seconds between the starts of two reads of one job: six a second.
READ_PERIOD = 0.16
#: Reads of one job that may be under way at once: the rate holds while an answer takes up to
#: READERS × READ_PERIOD, as it may when seven playbooks want two cores.
READERS = 4
_COLORS = {
    "pending": "yellow",
    "waiting": "cyan",
    "running": "blue",
    "successful": "green",
    "failed": "red",
    "error": "red",
    "canceled": "magenta",
}


@dataclass
class Watch:
    """One job, read by threads of its own until it is final.

    Attributes:
        host: what it installs on.
        job: as last read.
        answers: HTTP status code → number of reads; 0 stands for no answer at all.
        seconds: from the first read to the last.
    """

    host: str
    job: Job
    answers: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    _asked: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, connection: Connection) -> list[threading.Thread]:
        """Begin to read, over connections of its own."""
        began = clock.monotonic()
        threads = [
            threading.Thread(
                target=self._read,
                args=(connection.another(), began, began + number * READ_PERIOD),
                daemon=True,
            )
            for number in range(READERS)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _read(self, connection: Connection, began: float, due: float) -> None:
        while True:
            clock.sleep(max(0.0, due - clock.monotonic()))
            if self.job.final:
                connection.close()
                return
            asked = clock.monotonic()
            try:
                answer = connection.send("GET", f"jobs/{self.job.id}/")
                code, job = answer.status_code, None
                if code == 200:
                    job = Job.of(answer.json())
            except ServerUnreachable:
                code, job = 0, None
            with self._lock:
                self.answers[code] += 1
                self.seconds = clock.monotonic() - began
                # of two answers the one to the later question holds
                if job is not None and asked > self._asked and not self.job.final:
                    self.job, self._asked = job, asked
            due = max(due + READERS * READ_PERIOD, clock.monotonic())

    @property
    def reads(self) -> int:
        """How often its status was read."""
        return self.answers.total()

    @property
    def bad_reads(self) -> int:
        """How many of them were not answered 200."""
        return self.reads - self.answers[200]

    @property
    def reads_per_second(self) -> float:
        """The rate that was kept."""
        return self.reads / max(self.seconds, READ_PERIOD)

    @property
    def waited(self) -> float:
        """Seconds from the launch to the node's claim, by the database's clock."""
        if not self.job.started:
            return 0.0
        started, created = map(datetime.fromisoformat, (self.job.started, self.job.created))
        return (started - created).total_seconds()


def watch(watches: Sequence[Watch], connection: Connection) -> None:
    """Read and show all jobs until each has ended."""
    threads = [thread for each in watches for thread in each.start(connection)]
    console = Console()
    if console.is_terminal:
        with Live(_table(watches), console=console, refresh_per_second=5) as live:
            while any(thread.is_alive() for thread in threads):
                clock.sleep(0.2)
                live.update(_table(watches))
            live.update(_table(watches))
    else:
        _print_changes(watches, threads)


def _print_changes(watches: Sequence[Watch], threads: Sequence[threading.Thread]) -> None:
    began = clock.monotonic()
    told: dict[str, tuple[str, str]] = {}
    alive = True
    while alive:
        alive = any(thread.is_alive() for thread in threads)
        for each in watches:
            state = (each.job.status, _doing(each.job))
            if told.get(each.host) != state:
                told[each.host] = state
                seconds = clock.monotonic() - began
                words = f"job {each.job.id} {each.host}: {': '.join(filter(None, state))}"
                print(f"[{seconds:6.1f} s] {words}", flush=True)
        clock.sleep(0.1)
    sys.stdout.flush()


def _table(watches: Sequence[Watch]) -> Table:
    ended = sum(each.job.final for each in watches)
    table = Table("host", "job", "status", "seconds", "events", "reads")
    table.add_column("where, or why not", min_width=40)
    table.title = f"{ended} of {len(watches)} ended"
    for each in watches:
        job = each.job
        color = _COLORS.get(job.status, "white")
        table.add_row(
            each.host,
            str(job.id),
            f"[{color}]{job.status}[/]",
            f"{job.elapsed:.1f}",
            str(job.raw.get("events_stored", "")),
            str(each.reads),
            _doing(job),
        )
    return table


def _doing(job: Job) -> str:
    """Where it runs, or why it does not."""
    if job.status in ("waiting", "running"):
        return f"on {job.node}"
    return job.explanation


def print_summary(watches: Sequence[Watch], changed: dict[str, int]) -> None:
    """One row for each host, and the sums.

    Args:
        changed: host → number of tasks that changed something.
    """
    table = Table("host", "job", "status", "waited", "ran", "changed", "reads", "per s", "not 200")
    for each in watches:
        table.add_row(
            each.host,
            str(each.job.id),
            each.job.status,
            f"{each.waited:.1f} s",
            f"{each.job.elapsed:.1f} s",
            str(changed.get(each.host, "?")),
            str(each.reads),
            f"{each.reads_per_second:.1f}",
            str(each.bad_reads),
        )
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    reads = sum(each.reads for each in watches)
    slowest = min(each.reads_per_second for each in watches)
    print(
        f"{len(watches)} jobs at once, {sum(w.job.status == 'successful' for w in watches)}"
        f" successful; {reads:,} reads of their status (each job at least"
        f" {slowest:.1f} a second),"
        f" {sum(w.bad_reads for w in watches)} answered other than 200"
    )
    if slowest < 5:
        print("fewer than five reads a second: this machine has other work to do as well")
