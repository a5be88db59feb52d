"""A worker node's real processes, and jobs for them, as tests need them."""

from __future__ import annotations

import itertools
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import requests
from sqlalchemy import Connection, Engine, select, text, update

from dispatcher import settings as settings_module
from dispatcher.actions.save_credential import create_credential
from dispatcher.db import tables as t
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.secrets import Cipher, make_key_file
from dispatcher.settings import Settings
from tests.databases import Databases
from tests.factories import default_organization, make_job, pack, store_bundle
from tests.waiting import wait_until
from workers.handover import hand_over, line
from workers.run_dir import RunDir

LOCAL = f"localhost ansible_connection=local ansible_python_interpreter={sys.executable}\n"
ROOT = Path(__file__).parent.parent
#: A play of three events for one host, without gathering facts.
HELLO = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: hello}
"""
QUICK = {
    "heartbeat": 0.5,
    "cancel_poll": 0.4,
    "stop_grace": 1.0,
    "node_lost_after": 60.0,
    "node_lost_margin": 15.0,
    "node_capacity": 100,
    "log_level": "info",
}
_numbers = itertools.count(1)


def paced(gate: Path, tasks: int = 20) -> str:
    """A play that waits until ``gate`` exists, with an event before and many after."""
    return f"""
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {{msg: before}}
    - ansible.builtin.wait_for: {{path: {gate}, sleep: 1, timeout: 120}}
    - ansible.builtin.debug: {{msg: "after {{{{ item }}}}"}}
      loop: "{{{{ range({tasks}) | list }}}}"
"""


def agent_alone(
    name: str,
    databases: Databases,
    template: str,
    valkey: EmbeddedValkey,
    session_dir: Path,
    **given: Any,
) -> Iterator[NodeUnderTest]:
    """An agent alone, for all tests of a module; jobs are handed over as its Celery worker does it.

    The body of a fixture.

    Args:
        name: of its database and its data directory.
        given: settings besides.
    """
    node = NodeUnderTest(
        settings_module.load(
            database_url=databases.make(name, template=template),
            broker_url=valkey.url(0),
            data_dir=session_dir / name,
            **given,
        )
    )
    node.start("agent")
    yield node
    node.kill()
    databases.drop(name)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class NodeUnderTest:
    """A worker on a data directory; the log of its processes is a file there."""

    def __init__(self, settings: Settings, name: str = "n1", **changes: Any) -> None:
        given = settings.model_dump(exclude_unset=True) | QUICK | changes
        given.setdefault("worker_metrics_port", free_port())
        self.settings = settings_module.load(**given, node_name=name)
        self.name = name
        self.data_dir = self.settings.data_dir
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(self.data_dir, 0o700)
        make_key_file(self.data_dir / "cluster.key")
        self.log_file = self.data_dir / "worker.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, role: str = "worker", *, package: Path = ROOT) -> subprocess.Popen[bytes]:
        """Start the worker, or one of its processes alone.

        Args:
            package: the directory whose code it runs.
        """
        environment = os.environ | settings_module.environment(self.settings)
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment["PYTHONPATH"] = str(package)
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workers.app", role],
                cwd=package,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self.process

    def log(self) -> str:
        """What its processes have logged, without colors."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.log_file.read_text(errors="replace"))

    def pids(self, role: str) -> list[int]:
        """Processes of this node of one role: ``agent``, ``celery``."""
        mark = f"DISPATCHER_DATA_DIR={self.data_dir}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"workers.app" in words and role.encode() in words:
                    environment = (entry / "environ").read_bytes().split(b"\0")
                    if mark in environment:
                        found.append(int(entry.name))
            except OSError:
                continue
        return found

    @property
    def agent_pid(self) -> int:
        """The pid that the agent wrote into its lock; 0 before."""
        try:
            return int((self.data_dir / "agent.lock").read_text())
        except (OSError, ValueError):
            return 0

    def stop(self, *, timeout: float = 40.0) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(timeout)

    def kill(self) -> None:
        """End everything that is left of it, playbooks too."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        for role in ("agent", "celery"):
            for pid in self.pids(role):
                _kill(pid)
        for pid in self.processes_of_runs():
            _kill(pid)

    def processes_of_runs(self) -> list[int]:
        """Supervisors, and everything whose environment names a run directory."""
        mark = str(self.data_dir).encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if mark in (entry / "environ").read_bytes():
                    state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                    if state not in "ZX":
                        found.append(int(entry.name))
            except OSError:
                continue
        return found

    def run_dir(self, dispatch_id: UUID) -> RunDir:
        """The directory of a run."""
        return RunDir(self.data_dir / "runs" / str(dispatch_id))

    # -- its row, its jobs

    def wait_registered(self, engine: Engine) -> int:
        """Wait until the node is in the cluster and listens; its id."""

        def listening() -> int | None:
            with engine.connect() as connection:
                node_id: int | None = connection.scalar(
                    select(t.node.c.id).where(t.node.c.name == self.name)
                )
            return node_id if node_id and hand_over(self.data_dir, line()) else None

        return wait_until(listening, timeout=60, what=f"node {self.name} listens")  # type: ignore[return-value]

    def hand_over(self, *pairs: tuple[int, UUID]) -> None:
        """Hand jobs to the agent, as its Celery worker does."""
        assert hand_over(self.data_dir, line(start=pairs))

    def metric(self, name: str) -> float:
        """A metric's value; 0 without."""
        return metric(self.settings.worker_metrics_port, name)


def metric(port: int, name: str) -> float:
    """A metric's value by its name with labels, as ``/metrics`` on a port writes it; 0 without."""
    answer = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=5)
    for each in answer.text.splitlines():
        if each.rpartition(" ")[0] == name:
            return float(each.rpartition(" ")[2])
    return 0.0


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def waiting_job(
    connection: Connection,
    node_id: int,
    files: Mapping[str, str] | str = HELLO,
    *,
    inputs: Mapping[str, Any] | None = None,
    **columns: Any,
) -> tuple[int, UUID]:
    """A job that waits on a node, with its content: (job id, dispatch id)."""
    bundle = {"site.yml": files} if isinstance(files, str) else files
    digest, _, _ = pack(bundle)
    stored = select(t.content_bundle.c.digest).where(t.content_bundle.c.digest == digest)
    if connection.scalar(stored) is None:
        store_bundle(connection, bundle)
    job_id = make_job(
        connection,
        status="waiting",
        node_id=node_id,
        bundle_digest=digest,
        inputs={"inventory": LOCAL} | dict(inputs or {}),
        **columns,
    )
    dispatch_id: UUID = connection.scalar(select(t.job.c.dispatch_id).where(t.job.c.id == job_id))  # type: ignore[assignment]
    return job_id, dispatch_id


def claimed_job(
    connection: Connection, node_id: int, files: Mapping[str, str] | str = HELLO
) -> tuple[int, UUID]:
    """A job that the node's last agent has claimed: (job id, dispatch id); no directory."""
    job_id, dispatch_id = waiting_job(connection, node_id, files)
    connection.execute(
        update(t.job)
        .where(t.job.c.id == job_id)
        .values(status="running", started=text("dispatcher_now()"), node_epoch=1)
    )
    connection.execute(
        text(
            "INSERT INTO job_progress (job_id, job_day, dispatch_id)"
            " SELECT id, job_day, dispatch_id FROM job WHERE id = :job"
        ),
        {"job": job_id},
    )
    return job_id, dispatch_id


def output(engine: Engine, job_id: int) -> str:
    """What a job has printed, and all that its events hold besides."""
    with engine.connect() as connection:
        rows = connection.execute(
            select(t.job_event.c.stdout, t.job_event.c.event_data).where(
                t.job_event.c.job_id == job_id
            )
        )
        return "\n".join(f"{row.stdout}\n{row.event_data}" for row in rows)


def job_row(engine: Engine, job_id: int) -> Any:
    """A job's row as it is now."""
    with engine.connect() as connection:
        return connection.execute(select(t.job).where(t.job.c.id == job_id)).one()


def wait_status(engine: Engine, job_id: int, *statuses: str, timeout: float = 60.0) -> Any:
    """Wait until a job has one of these statuses; its row."""

    def row() -> Any:
        found = job_row(engine, job_id)
        return found if found.status in statuses else None

    return wait_until(row, timeout=timeout, what=f"job {job_id} is {' or '.join(statuses)}")


def wait_final(engine: Engine, job_id: int, *, timeout: float = 60.0) -> Any:
    """Wait until a job is final; its row."""
    return wait_status(engine, job_id, "successful", "failed", "error", "canceled", timeout=timeout)


def counters(engine: Engine, job_id: int) -> list[int]:
    """The counters of a job's stored events, in order."""
    with engine.connect() as connection:
        return list(
            connection.scalars(
                text("SELECT counter FROM job_event WHERE job_id = :job ORDER BY counter"),
                {"job": job_id},
            )
        )


def started_job(node: NodeUnderTest, engine: Engine, play: str) -> tuple[int, UUID]:
    """A job of a node whose playbook runs and has stored events."""
    node_id = node.wait_registered(engine)
    with engine.begin() as connection:
        job_id, dispatch_id = waiting_job(connection, node_id, play)
    node.hand_over((job_id, dispatch_id))
    wait_until(lambda: counters(engine, job_id), what="events while it runs", timeout=60)
    return job_id, dispatch_id


def saved_credential(
    node: NodeUnderTest, engine: Engine, kind: str, cipher: Cipher | None = None, **inputs: Any
) -> int:
    """A credential, encrypted with the node's key or another one; its number."""
    values = {"name": f"credential {next(_numbers)}", "kind": kind, "inputs": inputs}
    with engine.begin() as connection:
        return create_credential(
            connection,
            {"organization_id": default_organization(connection), **values},
            cipher=cipher or Cipher(node.data_dir / "cluster.key"),
        )


def holding(directory: Path, *secrets: str) -> list[Path]:
    """Files with a secret in them."""
    found = []
    for path in directory.rglob("*"):
        try:
            content = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:
            continue
        if any(secret.encode() in content for secret in secrets):
            found.append(path)
    return found
