"""A cluster of real servers and roles, each of which may be killed, frozen or cut off."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy.engine import make_url

from dispatcher import processes
from dispatcher import settings as settings_module
from dispatcher.actions.tokens import create_token
from dispatcher.client.client import Client
from dispatcher.client.connection import Connection
from dispatcher.db.engine import make_engine, transaction
from dispatcher.db.migrate import migrate
from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.errors import RunDirectoryError
from dispatcher.secrets import make_key_file
from tests.faults.disks import SmallDisks
from tests.faults.kept_role import KeptRole, role_names
from tests.moved_clock import move_clock
from tests.nodes import free_port
from tests.roles import children_of, command_line, is_alive
from tests.tcp_proxy import TcpProxy
from tests.waiting import wait_until
from workers.run_dir import RunDir

NODES: Final = ("n1", "n2")
#: No outage may last longer than a node's lease minus its margin: that is another rule's case.
SHORT: Final = {
    "manager_period": 2.0,
    "heartbeat": 1.0,
    "cancel_poll": 0.5,
    "stop_grace": 2.0,
    "node_lost_after": 150.0,
    "node_lost_margin": 40.0,
    "submission_grace": 5.0,
    "waiting_limit": 15.0,
    "keep_run_directory": 5.0,
    "node_capacity": 10,
    "spool_quota_bytes": 1_000_000,
}
#: Seconds that whatever a stopped role left has to end by itself.
_GONE: Final = 15.0


@dataclass
class Cluster:
    """Servers, proxies in front of them, and roles that know only the proxies.

    Args:
        directory: of everything it keeps; short, and open to the server's account.
        chooses: picks the pauses before ended roles start again.
        nodes: names of the worker nodes.
        changes: settings that differ from :data:`SHORT`.
        python: the interpreter of every role; playbooks run the ansible-playbook beside it.
        small_disks: whether nodes get disks that can be filled.
    """

    directory: Path
    chooses: random.Random
    nodes: Sequence[str] = NODES
    changes: Mapping[str, object] = field(default_factory=dict)
    python: str = sys.executable
    small_disks: bool = True
    roles: dict[str, KeptRole] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.postgres = EmbeddedPostgres(
            self.directory / "postgres", max_connections=100, durable=False
        )
        self.valkey = EmbeddedValkey(self.directory / "valkey", tcp=True)
        self.disks = SmallDisks()
        self._stopping = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)

    # -- life

    def start(self) -> None:
        """Start servers and roles, and wait until the API answers."""
        direct = self.postgres.start()
        broker = make_url(self.valkey.start())
        database = make_url(direct)
        socket = f"{database.query['host']}/.s.PGSQL.{database.port or 5432}"
        self.database_proxy = TcpProxy(socket)
        assert broker.port is not None
        self.broker_proxy = TcpProxy(("127.0.0.1", broker.port))
        key_file = self.directory / "cluster.key"
        make_key_file(key_file)
        self.settings = settings_module.load(
            database_url=database.set(
                host="127.0.0.1", port=self.database_proxy.port, query={}
            ).render_as_string(hide_password=False),
            broker_url=broker.set(port=self.broker_proxy.port).render_as_string(
                hide_password=False
            ),
            key_file=key_file,
            data_dir=self.directory / "shared",
            **{**SHORT, **self.changes},
        )
        #: Past the proxies: what is looked at is not what is broken.
        self.engine = make_engine(
            self.settings.model_copy(update={"database_url": direct}),
            application_name="auditor",
            pool_size=4,
        )
        migrate(self.engine)
        with transaction(self.engine) as connection:
            self._token = create_token(connection, "faults")
        self._api_port = free_port()
        for name in role_names(self.nodes):
            self.roles[name] = self._role(name)
            self.roles[name].start()
        self._keeper.start()
        with self.client(patience=90) as client:
            wait_until(
                lambda: len([node for node in client.nodes() if node.capacity]) == len(self.nodes),
                what="every node takes jobs",
            )

    def _role(self, name: str) -> KeptRole:
        directory = self.directory / name
        directory.mkdir(mode=0o700)
        changes: dict[str, object] = {"data_dir": directory}
        if name == "api":
            changes["api_port"] = self._api_port
        if name.startswith("worker-"):
            changes |= {"node_name": name.removeprefix("worker-"), "stop_policy": "detach"}
            if self.small_disks:
                self.disks.mount(directory)
        settings = self.settings.model_copy(update=changes)
        return KeptRole(name, settings, self.directory / f"{name}.log", self.python)

    def client(self, *, patience: float = 60.0) -> Client:
        """A client of the API; one for each thread."""
        return Client(
            Connection(f"http://127.0.0.1:{self._api_port}", self._token, patience=patience)
        )

    def stop(self) -> None:
        """End every role in order, then the servers; whatever is left is killed."""
        self._stopping.set()
        self._keeper.join()
        running = [role.process for role in self.roles.values() if role.process is not None]
        for process in running:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        deadline = time.monotonic() + 30
        for process in running:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        self.engine.dispose()
        self.database_proxy.close()
        self.broker_proxy.close()
        self.valkey.stop()
        self.postgres.stop()

    def left_over(self) -> list[str]:
        """What is still there of a stopped cluster, once it had some seconds to go."""
        deadline = time.monotonic() + _GONE
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [f"process {pid}: {' '.join(command_line(pid))[:160]}" for pid in left]

    def kill_left_over(self) -> None:
        """End every process of this cluster that is still there, and take its disks away."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.disks.unmount()

    def _keep(self) -> None:
        while not self._stopping.wait(0.1):
            for role in self.roles.values():
                assert role.process is not None
                if role.process.poll() is None:
                    role.due = 0.0
                elif not role.due:
                    role.due = time.monotonic() + self.chooses.uniform(0, 2)
                elif time.monotonic() >= role.due:
                    role.due = 0.0
                    role.start()

    # -- what there is to break

    def pids(self, kind: str) -> list[int]:
        """Processes of one kind, oldest first: a role's name, or one of a worker's or control's own.

        Args:
            kind: ``api``, ``beat``, ``control``, ``worker``, ``agent``, ``celery``, ``fork server``,
                ``manager`` (a child of control) or ``supervisor``.
        """
        tops = {
            name: role.process.pid
            for name, role in self.roles.items()
            if role.process is not None and role.process.poll() is None
        }
        match kind:
            case "api" | "beat" | "control" | "worker":
                found = [pid for name, pid in tops.items() if name.startswith(kind)]
            case "manager":
                found = [
                    pid
                    for name, top in tops.items()
                    if name.startswith("control")
                    for pid in children_of(top)
                ]
            case "supervisor":
                found = list(self.supervisors().values())
            case "fork server":
                # supervisors are forks of it, with its command line: it is the agent's own child
                found = [pid for agent in self.pids("agent") for pid in _preloaded(agent)]
            case _:
                below = [
                    pid
                    for name, top in tops.items()
                    if name.startswith("worker")
                    for pid in children_of(top)
                ]
                found = [pid for pid in below if kind in command_line(pid)]
        return sorted(pid for pid in found if is_alive(pid))

    def runs_of(self, directory: Path) -> list[str]:
        """The names of a worker's run directories, which are the dispatches' ids."""
        try:
            return [path.name for path in (directory / "runs").iterdir() if path.name[0] != "."]
        except FileNotFoundError:
            return []

    def supervisors(self) -> dict[str, int]:
        """Every living supervisor by the name of its run directory, which is the dispatch's id."""
        found = {}
        for path in self.directory.glob("worker-*/runs/*"):
            try:
                record = RunDir(path).read_supervisor()
            except RunDirectoryError:
                continue
            if record is not None and is_alive(record.pid):
                found[path.name] = record.pid
        return found

    def processes(self) -> list[int]:
        """Everything whose environment or command line names this cluster's directory."""
        mark = str(self.directory).encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if mark in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return [pid for pid in found if is_alive(pid)]

    def set_clock(self, offset: float) -> None:
        """Move the database's clock, which every decision is made by, by some seconds."""
        move_clock(self.engine, offset)


def _preloaded(agent: int) -> list[int]:
    return [
        pid
        for pid in children_of(agent)
        if "workers.preload" in command_line(pid) and _parent(pid) == agent
    ]


def _parent(pid: int) -> int:
    found = processes.read(pid)
    return 0 if found is None else found.parent
