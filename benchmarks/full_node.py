"""One node with two hundred sleeping playbooks of real Ansible: all at once, adopted, canceled.

Adoption counts from the start of the new agent's process until it watches every run; cancel from the
call of the API until no process of the run's tree is alive, when Ansible obeys.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import requests

from benchmarks.figures import Figure
from benchmarks.memory import pss_mb, run_memory
from benchmarks.servers import short_directory
from dispatcher import clock, processes
from dispatcher.client.client import Client
from tests.nodes import free_port, metric
from tests.stack import RunningStack, running_stack
from tests.waiting import wait_until
from workers.run_dir import RunDir
from workers.run_directories import job_of

JOBS = 200
#: Kills of the agent; cancels one after another; cancels at once.
KILLS, SINGLE, BURST = 5, 50, 100
ASLEEP: Final = "- hosts: all\n  gather_facts: false\n  tasks:\n    - command: sleep 3600\n"
#: Ansible asks its own workers a thousand times a second, unless told otherwise: two hundred of it
#: would take both cores for that, and nothing else would be measured.
CALM: Final = "[defaults]\ninternal_poll_interval = 0.2\n"
SLEEP: Final = b"sleep\x003600\0"
_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: Every so many runs are looked at for memory; seconds in which every cancel must have ended.
SAMPLE: Final = 10
LONGEST: Final = 120.0


def measure() -> list[Figure]:
    """How many sleep at once; seconds of adoption and of cancel."""
    port = free_port()
    with (
        short_directory() as directory,
        running_stack(
            directory / "stack",
            node_capacity=2 * JOBS,
            node_max_jobs=JOBS,
            worker_metrics_port=port,
        ) as stack,
        stack.client() as client,
    ):
        node = stack.data_dir / "nodes" / "n1"
        bundle = stack.pack(directory / "play", {"site.yml": ASLEEP, "ansible.cfg": CALM})
        began = clock.monotonic()
        jobs = [stack.launch(client, bundle).id for _ in range(JOBS)]
        wait_until(lambda: len(_sleeping(node)) == JOBS, timeout=600, what="all playbooks sleep")
        words = f"all asleep {clock.monotonic() - began:.0f} s after the first launch"
        running = sum(client.job(job).status == "running" for job in jobs)
        supervisors = _supervisors(node)
        memory = _memory(list(supervisors.values())[::SAMPLE], _agent(node))
        return [
            Figure("concurrent_200", running, "count", f"{words}; {memory}"),
            _adoptions(node, port),
            *_cancels(stack, client, node, jobs, supervisors),
        ]


def _adoptions(node: Path, port: int) -> Figure:
    times = [_adoption(node, port) for _ in range(KILLS)]
    words = f"{KILLS} kills of the agent over {JOBS} runs, {min(times):.2f} to {max(times):.2f} s"
    return Figure("adoption", median(times), "s", words)


def _cancels(
    stack: RunningStack,
    client: Client,
    node: Path,
    jobs: Sequence[int],
    supervisors: Mapping[int, int],
) -> list[Figure]:
    """Some one by one, then many at once; nobody else's processes end."""
    many = jobs[SINGLE : SINGLE + BURST]
    singles = [_cancel(client, [job], supervisors)[0] for job in jobs[:SINGLE]]
    burst = _cancel(client, many, supervisors)
    left = JOBS - SINGLE - BURST
    statuses = stack.wait(client, [*jobs[:SINGLE], *many])
    if set(statuses.values()) != {"canceled"} or len(_sleeping(node)) != left:
        raise AssertionError(f"{len(_sleeping(node))} sleep, not {left}; {statuses}")
    spread = (
        f"{SINGLE} one by one, {min(singles):.2f} to {max(singles):.2f}, median"
        f" {median(singles):.2f} s, while the others sleep"
    )
    return [
        Figure("cancel_to_empty_p95", quantiles(singles, n=20)[-1], "s", spread),
        Figure(
            "cancel_burst_to_empty",
            max(burst),
            "s",
            f"the last of {BURST} at once, median {median(burst):.1f} s",
        ),
    ]


def _sleeping(node: Path) -> list[int]:
    """Pids of the commands that this node's playbooks wait for."""
    mark = str(node).encode()
    found = []
    for process in processes.everyone():
        directory = Path(f"/proc/{process.pid}")
        try:
            words, environment = (directory / n for n in ("cmdline", "environ"))
            if words.read_bytes() == SLEEP and mark in environment.read_bytes():
                found.append(process.pid)
        except OSError:
            continue
    return found


def _memory(supervisors: list[int], agent: int) -> str:
    """Words for what some of the runs hold, and the agent that watches all of them."""
    ours, ansible = zip(*(run_memory(pid) for pid in supervisors), strict=True)
    return (
        f"supervisor and wrapper {median(ours):.1f}, Ansible {median(ansible):.1f} MB PSS a run,"
        f" agent {pss_mb(agent):.1f} MB"
    )


def _agent(node: Path) -> int:
    return int((node / "agent.lock").read_text() or 0)


def _supervisors(node: Path) -> dict[int, int]:
    """The supervisor of each job."""
    found = {}
    for directory in RunDir.all(node):
        job, record = job_of(directory), directory.read_supervisor()
        if job is not None and record is not None:
            found[job] = record.pid
    return found


def _adoption(node: Path, port: int) -> float:
    """Kill the agent; seconds from the start of the next one until it watches every run."""
    killed = _agent(node)
    os.kill(killed, signal.SIGKILL)

    def started() -> float | None:
        pid = _agent(node)
        ticks = None if pid in (0, killed) else processes.start_of(pid)
        return None if ticks is None else ticks / _TICKS

    # the file is written within the start: what came before counts all the same
    start = wait_until(started, what="a new agent") or 0.0
    wait_until(lambda: _watched(port) == JOBS, timeout=60, what="every run is adopted")
    return clock.boottime() - start


def _watched(port: int) -> int:
    try:
        return int(metric(port, "dispatcher_node_running_jobs"))
    except requests.RequestException:
        return 0


def _cancel(client: Client, jobs: Sequence[int], supervisors: Mapping[int, int]) -> list[float]:
    """Cancel jobs; seconds until no process of each one's tree is alive."""
    trees = {job: _tree(supervisors[job]) for job in jobs}
    began = {}
    for job in jobs:
        began[job] = clock.monotonic()
        client.cancel(job)
    took: dict[int, float] = {}
    while len(took) < len(jobs):
        for job in jobs:
            if job not in took and _is_empty(trees[job]):
                took[job] = clock.monotonic() - began[job]
        if clock.monotonic() - min(began.values()) > LONGEST:
            raise AssertionError(f"{len(jobs) - len(took)} canceled runs are still there")
        clock.sleep(0.01)
    return list(took.values())


def _tree(supervisor: int) -> dict[int, int]:
    """Each process of a run, with its start."""
    root = processes.read(supervisor)
    assert root is not None
    return {each.pid: each.start for each in (root, *processes.descendants(supervisor))}


def _is_empty(tree: Mapping[int, int]) -> bool:
    return all(processes.start_of(pid) != start for pid, start in tree.items())
