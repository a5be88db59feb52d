"""Fifty trivial jobs at once, against the same fifty through bare ansible-runner."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.figures import Figure
from benchmarks.servers import short_directory
from tests.stack import LOCALHOST, RunningStack, running_stack

SITE = "- hosts: all\n  gather_facts: false\n  tasks:\n    - ansible.builtin.ping:\n"
JOBS = 50
#: Two at a time for each core, on both sides.
PARALLEL = 4
ROUNDS = 3


def measure() -> list[Figure]:
    """Ratio of the walls, rounds of both in turns."""
    ours, bare = [], []
    with (
        short_directory() as directory,
        # impact of a job on one host is 2
        running_stack(directory / "stack", node_capacity=2 * PARALLEL) as stack,
    ):
        for number in range(ROUNDS):
            bare.append(_bare(directory / f"bare{number}"))
            ours.append(_ours(stack, directory / "play"))
    ratio = median(o / b for o, b in zip(ours, bare, strict=True))
    words = (
        f"bare {median(bare):.1f} s, ours {median(ours):.1f} s; {ROUNDS} rounds, {PARALLEL} at once"
    )
    return [Figure("fifty_jobs_wall_ratio", ratio, "ratio", words)]


def _ours(stack: RunningStack, play: Path) -> float:
    bundle = stack.pack(play, {"site.yml": SITE})
    with stack.client() as client:
        began = perf_counter()
        jobs = [stack.launch(client, bundle).id for _ in range(JOBS)]
        statuses: dict[int, str] = {}
        for job in jobs:
            # one after another: looking at all of them all the time takes a core
            statuses |= stack.wait(client, [job], timeout=300)
        seconds = perf_counter() - began
    assert set(statuses.values()) == {"successful"}, statuses
    return seconds


def _bare(directory: Path) -> float:
    """One process of ansible-runner for each run, as its users start them."""
    for number in range(JOBS):
        private = directory / str(number)
        (private / "project").mkdir(parents=True)
        (private / "inventory").mkdir()
        (private / "project" / "site.yml").write_text(SITE)
        (private / "inventory" / "hosts").write_text(LOCALHOST)

    # it finds ansible-playbook by name
    programs = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": os.pathsep.join([programs, os.environ["PATH"]])}

    def run(number: int) -> None:
        command = [sys.executable, "-m", "ansible_runner", "run", str(directory / str(number))]
        subprocess.run(
            [*command, "-p", "site.yml", "-q"], check=True, capture_output=True, env=environment
        )

    began = perf_counter()
    with ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(run, range(JOBS)))
    return perf_counter() - began
