"""What a worker node holds with forty runs: memory of a supervisor, database connections."""

from __future__ import annotations

import json
import time
from statistics import median

from sqlalchemy import Engine, create_engine, text

from benchmarks.figures import Figure
from benchmarks.memory import run_memory
from benchmarks.servers import short_directory
from dispatcher import processes
from dispatcher.client.client import Client
from tests.stack import RunningStack, running_stack

RUNNING = 40
HELD = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.wait_for:
        path: "{{ gate }}"
        timeout: 300
        sleep: 2
"""


def measure() -> list[Figure]:
    with (
        short_directory() as directory,
        running_stack(directory / "stack", node_capacity=2 * RUNNING) as stack,
        stack.client() as client,
    ):
        bundle = stack.pack(directory / "play", {"site.yml": HELD})
        gate = directory / "gate"
        jobs = [
            stack.launch(client, bundle, extra_vars={"gate": str(gate)}).id for _ in range(RUNNING)
        ]
        engine = create_engine(
            stack.state.database_url.replace("postgresql://", "postgresql+psycopg2://")
        )
        _wait_running(client, jobs)
        connections = _node_connections(engine)
        memory = _run_memory(stack)
        gate.touch()
        stack.wait(client, jobs, timeout=300)
        engine.dispose()
    spread = (
        f"{len(memory)} supervisors with their wrappers, {min(memory):.1f} to {max(memory):.1f} MB"
    )
    return [
        Figure("node_connections_40_running", connections, "count", "pg_stat_activity"),
        Figure("supervisor_pss", median(memory), "MB", spread),
    ]


def _wait_running(client: Client, jobs: list[int]) -> None:
    deadline = time.monotonic() + 300
    while any(client.job(job).status != "running" for job in jobs):
        if time.monotonic() > deadline:
            raise TimeoutError("the forty jobs do not run")
        time.sleep(0.5)
    time.sleep(10)  # past the start of the last one


def _node_connections(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(
            connection.scalar(
                text(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'dispatcher-node %'"
                )
            )
            or 0
        )


def _run_memory(stack: RunningStack) -> list[float]:
    """Proportional set size of each run's own processes, in MB: the supervisor and its wrapper."""
    found = []
    for record in stack.data_dir.glob("nodes/*/runs/*/supervisor.json"):
        pid = json.loads(record.read_text())["pid"]
        if processes.start_of(pid) is not None:
            found.append(run_memory(pid)[0])
    return found
