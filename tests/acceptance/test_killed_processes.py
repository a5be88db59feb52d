"""Processes of the stack killed while jobs run and wait: every job ends as it should."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.acceptance.conftest import site
from tests.stack import RunningStack, running_stack
from tests.waiting import wait_until

#: Runs until its file appears, so that the test and not a clock decides when it ends.
HELD = """
- ansible.builtin.wait_for:
    path: "{{ gate }}"
    timeout: 90
    sleep: 1
"""


def kill_tree(pid: int) -> None:
    """SIGKILL to a process of the stack and to all that it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, signal.SIGKILL)
    for child in children:
        try:
            kill_tree(int(child))
        except (FileNotFoundError, ProcessLookupError):
            continue


def test_control_and_broker_killed_with_five_running_and_ten_pending_lose_nothing(
    session_dir: Path,
) -> None:
    # impact of a job on one host: 2; room for five of them
    with running_stack(session_dir / "killed", node_capacity=10) as stack, stack.client() as client:
        bundle = stack.pack(session_dir / "held", {"site.yml": site(HELD)})
        gate = session_dir / "gate"
        jobs = [stack.launch(client, bundle, extra_vars={"gate": str(gate)}).id for _ in range(15)]

        def count(status: str) -> int:
            return sum(client.job(job).status == status for job in jobs)

        wait_until(lambda: count("running") == 5, what="five jobs run")
        assert count("pending") == 10
        for role in ("control", "valkey"):
            for pid in stack.pids(role):
                kill_tree(pid)
        gate.touch()
        statuses = stack.wait(client, jobs, timeout=150)
        assert set(statuses.values()) == {"successful"}, statuses
        assert_started_once(stack, jobs)


def assert_started_once(stack: RunningStack, jobs: list[int]) -> None:
    """No job has the events of two runs: its counters are contiguous and it has one start."""
    with stack.client() as client:
        for job in jobs:
            events = client.events(job, after=0)
            assert [e.counter for e in events] == list(range(1, len(events) + 1))
            assert sum(e.event == "playbook_on_start" for e in events) == 1
