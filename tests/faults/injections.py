"""What is done to a cluster: each injection breaks something, waits, and mends it."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import redis

from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.embedded.valkey import EmbeddedValkey
from tests.faults import full_disk
from tests.faults.cluster import Cluster
from tests.tcp_proxy import TcpProxy

#: Processes that may be killed at any instant without any job noticing.
HARMLESS: Final = ("api", "beat", "control", "manager", "worker", "agent", "celery", "fork server")


@dataclass
class Injected:
    """What was done, for the report and the audit.

    Attributes:
        at: seconds since the suite began.
        harmed: names of run directories (dispatch ids) whose own processes were killed, or whose
            disk was full: they may end in an error, whatever they are.
        findings: what was not as it must be meanwhile.
    """

    at: float
    words: str
    seconds: float = 0.0
    harmed: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


@dataclass
class Injector:
    """Chooses and performs injections, one at a time.

    Args:
        chooses: decides what, whom and how long: the same seed, the same list.
    """

    cluster: Cluster
    chooses: random.Random
    done: list[Injected] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def inject(self) -> Injected:
        """Perform one; what it was."""
        kinds = list(_KINDS)
        kind = self.chooses.choices(kinds, [weight for _, weight in _KINDS.values()])[0]
        act, _ = _KINDS[kind]
        made = Injected(time.monotonic() - self._began, kind)
        made.words = act(self, made)
        made.seconds = time.monotonic() - self._began - made.at
        self.done.append(made)
        return made

    # -- processes

    def _victim(self) -> tuple[str, int | None]:
        kind = self.chooses.choice(HARMLESS)
        place = self.chooses.random()
        pids = self.cluster.pids(kind)
        return kind, pids[int(place * len(pids))] if pids else None

    def kill(self, made: Injected) -> str:
        kind, pid = self._victim()
        if pid is None:
            return f"kill -9 {kind}: none runs"
        _send(pid, signal.SIGKILL)
        return f"kill -9 {kind} ({pid})"

    def kill_many(self, made: Injected) -> str:
        killed = []
        for kind in self.chooses.sample(HARMLESS, 3):
            for pid in self.cluster.pids(kind):
                _send(pid, signal.SIGKILL)
            killed.append(kind)
        return f"kill -9 of every {', '.join(killed)}"

    def freeze(self, made: Injected) -> str:
        kind, pid = self._victim()
        seconds = self.chooses.uniform(1, 12)
        if pid is None:
            return f"SIGSTOP {kind}: none runs"
        _send(pid, signal.SIGSTOP)
        time.sleep(seconds)
        _send(pid, signal.SIGCONT)
        return f"SIGSTOP {kind} ({pid}) for {seconds:.1f} s"

    def kill_supervisor(self, made: Injected) -> str:
        place = self.chooses.random()
        alive = sorted(self.cluster.supervisors().items())
        if not alive:
            return "kill -9 supervisor: none runs"
        name, pid = alive[int(place * len(alive))]
        # noted first: it may end by itself in between, which harms nobody
        made.harmed.append(name)
        _send(pid, signal.SIGKILL)
        return f"kill -9 supervisor ({pid}) of {name}"

    # -- servers

    def restart_postgres(self, made: Injected) -> str:
        return self._restart(self.cluster.postgres, 6)

    def restart_valkey(self, made: Injected) -> str:
        return self._restart(self.cluster.valkey, 8)

    def _restart(self, server: EmbeddedPostgres | EmbeddedValkey, longest: float) -> str:
        hard = self.chooses.random() < 0.5
        seconds = self.chooses.uniform(0, longest)
        restart(server, hard=hard, seconds=seconds)
        return (
            f"{server.process.name} {'kill -9' if hard else 'stopped'}, back after {seconds:.1f} s"
        )

    def flush(self, made: Injected) -> str:
        with suppress(redis.RedisError), redis.Redis.from_url(self.cluster.valkey.url()) as client:
            client.flushall()
        return "FLUSHALL"

    # -- network

    def _proxy(self) -> tuple[str, TcpProxy]:
        if self.chooses.random() < 0.6:
            return "PostgreSQL", self.cluster.database_proxy
        return "the broker", self.cluster.broker_proxy

    def cut(self, made: Injected) -> str:
        name, proxy = self._proxy()
        seconds = self.chooses.uniform(0.5, 15)
        proxy.cut()
        time.sleep(seconds)
        proxy.restore()
        return f"{name} cut off for {seconds:.1f} s"

    def stall(self, made: Injected) -> str:
        name, proxy = self._proxy()
        seconds = self.chooses.uniform(1, 25)
        proxy.stall()
        time.sleep(seconds)
        proxy.restore()
        return f"{name} black-holed for {seconds:.1f} s"

    def abandon(self, made: Injected) -> str:
        name, proxy = self._proxy()
        proxy.abandon()
        return f"every connection to {name} half-open"

    def delay(self, made: Injected) -> str:
        name, proxy = self._proxy()
        seconds, held = self.chooses.uniform(3, 10), self.chooses.uniform(0.01, 0.2)
        proxy.delay = held
        time.sleep(seconds)
        proxy.delay = 0.0
        return f"{name} slower by {held * 1000:.0f} ms a packet for {seconds:.1f} s"

    # -- disks

    def fill_disk(self, made: Injected) -> str:
        place, left = self.chooses.random(), self.chooses.choice((0, 100_000, 20 << 20))
        seconds = self.chooses.uniform(1, 10)
        disks = self.cluster.disks.directories
        if not disks:
            return "a full disk: this account may not mount one"
        directory = disks[int(place * len(disks))]
        full_disk.fill(self.cluster, directory, made, left=left, seconds=seconds)
        return f"the disk of {directory.name} full but for {left} bytes for {seconds:.1f} s"

    # -- time

    def move_clock(self, made: Injected) -> str:
        offset = self.chooses.choice((-3600.0, -30.0, 30.0, 3600.0))
        seconds = self.chooses.uniform(2, 8)
        self.cluster.set_clock(offset)
        time.sleep(seconds)
        self.cluster.set_clock(0)
        return f"the database's clock moved by {offset:+.0f} s for {seconds:.1f} s"


Act = Callable[[Injector, Injected], str]
#: Kind → what it does, and how often it is chosen.
_KINDS: Final[dict[str, tuple[Act, int]]] = {
    "kill": (Injector.kill, 8),
    "kill many": (Injector.kill_many, 2),
    "freeze": (Injector.freeze, 5),
    "kill supervisor": (Injector.kill_supervisor, 2),
    "restart postgres": (Injector.restart_postgres, 2),
    "restart valkey": (Injector.restart_valkey, 2),
    "flush": (Injector.flush, 2),
    "cut": (Injector.cut, 3),
    "stall": (Injector.stall, 3),
    "abandon": (Injector.abandon, 2),
    "delay": (Injector.delay, 2),
    "fill disk": (Injector.fill_disk, 2),
    "move clock": (Injector.move_clock, 2),
}


def restart(server: EmbeddedPostgres | EmbeddedValkey, *, hard: bool, seconds: float) -> None:
    """Stop a server and start it again; returns when it answers.

    Args:
        hard: with SIGKILL.
        seconds: for which it is gone.
    """
    if hard:
        _send(server.process.pid, signal.SIGKILL)
    else:
        server.process.stop()
    time.sleep(seconds)
    server.start()


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
