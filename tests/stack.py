"""A whole embedded stack for acceptance tests and benchmarks: started, talked to, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher import settings as settings_module
from dispatcher.client.answers import Job
from dispatcher.client.client import Client
from dispatcher.client.connection import Connection
from dispatcher.client.pack import Bundle, pack
from dispatcher.client.submission import submit
from dispatcher.domain.launch import RunRequest
from dispatcher.embedded.background import start_in_background, stop_stack
from dispatcher.embedded.state import StackState
from tests.waiting import wait_until

FINAL = ("successful", "failed", "error", "canceled")
#: The interpreter that runs the tests also serves localhost: discovery may find one that does not run.
LOCALHOST = f"localhost ansible_connection=local ansible_python_interpreter={sys.executable}\n"


@dataclass
class RunningStack:
    """A stack on ``data_dir``; ``state`` is what it wrote when it was ready."""

    data_dir: Path
    state: StackState

    def client(self) -> Client:
        """A new client; one for each thread."""
        return Client(Connection(self.state.api_url, self.state.token()))

    def environment(self) -> dict[str, str]:
        """Variables for commands that are to use this stack."""
        return os.environ | {"DISPATCHER_DATA_DIR": str(self.data_dir)}

    def pids(self, role: str) -> list[int]:
        """The process of a role as the stack knows it now."""
        state = StackState.read(self.data_dir)
        assert state is not None
        return [p.mark.pid for p in state.processes if p.name == role and p.mark is not None]

    def pack(self, directory: Path, files: Mapping[str, str]) -> Bundle:
        """A bundle of these files, uploaded."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (directory / name).write_text(content)
        bundle = pack(directory)
        with self.client() as client:
            client.upload(bundle)
        return bundle

    def launch(self, client: Client, bundle: Bundle, **fields: Any) -> Job:
        """Launch a run of a bundle's ``site.yml`` on localhost, unless told otherwise."""
        request = RunRequest(
            **({"playbook": "site.yml", "inventory": LOCALHOST} | fields),
            bundle_digest=bundle.digest,
        )
        job, _ = submit(client, request, bundle)
        return job

    def wait(self, client: Client, job_ids: list[int], *, timeout: float = 90) -> dict[int, str]:
        """Wait until all these jobs are final; their statuses."""

        def all_final() -> dict[int, str] | None:
            statuses = {job_id: client.job(job_id).status for job_id in job_ids}
            return statuses if all(s in FINAL for s in statuses.values()) else None

        return wait_until(all_final, timeout=timeout, what=f"jobs {job_ids} are final")

    @contextmanager
    def worker(self, name: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
        """A further worker node on this machine, stopped at the end."""
        environment = self.environment() | {
            f"DISPATCHER_{key.upper()}": value for key, value in settings.items()
        }
        with (self.data_dir / "logs" / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dispatcher.cli.main", "worker", "--name", name],
                env=environment | {"DISPATCHER_STOP_POLICY": "cancel"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(20)


@contextmanager
def running_stack(data_dir: Path, **settings: Any) -> Iterator[RunningStack]:
    """Start a stack on a free port in ``data_dir``; stopped, with all its processes, at the end."""
    given = {"data_dir": data_dir, "api_port": 0, "node_name": "n1"} | settings
    state = start_in_background(settings_module.load(**given))
    try:
        yield RunningStack(data_dir, state)
    finally:
        stop_stack(data_dir)
