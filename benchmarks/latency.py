"""What the dispatcher adds to one job on an idle stack: until the claim, and in all."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from benchmarks.figures import Figure
from benchmarks.servers import short_directory
from dispatcher.client.client import Client
from dispatcher.client.pack import Bundle
from tests.programs import installed
from tests.stack import LOCALHOST, RunningStack, running_stack

SITE = "- hosts: all\n  gather_facts: false\n  tasks: []\n"
JOBS = 30
PAIRS = 11


def measure() -> list[Figure]:
    """Accept to claim, and wall of a trivial job minus that of bare ``ansible-playbook``."""
    with short_directory() as directory, running_stack(directory / "stack") as stack:
        bundle = stack.pack(directory / "play", {"site.yml": SITE})
        with stack.client() as client:
            stack.wait(client, [stack.launch(client, bundle).id])
            waits = sorted(_wait(stack, client, bundle) * 1000 for _ in range(JOBS))
            costs, bare = _costs(stack, client, bundle, directory / "play")
    spread = f"{JOBS} jobs, {waits[0]:.0f} to {waits[-1]:.0f} ms"
    bare_words = f"bare ansible-playbook {median(bare):.0f} ms; {PAIRS} pairs, one at a time"
    return [
        Figure("accept_to_claimed_p50", median(waits), "ms", spread),
        Figure("accept_to_claimed_p95", quantiles(waits, n=20)[-1], "ms", spread),
        Figure("cost_per_trivial_job", median(costs), "ms", bare_words),
    ]


def _wait(stack: RunningStack, client: Client, bundle: Bundle) -> float:
    """Seconds from the row's creation to the claim, both by the database's clock."""
    job = stack.launch(client, bundle)
    stack.wait(client, [job.id])
    ended = client.job(job.id)
    return _seconds(ended.created, ended.started)


def _seconds(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def _costs(
    stack: RunningStack, client: Client, bundle: Bundle, play: Path
) -> tuple[list[float], list[float]]:
    """Milliseconds more than the bare run beside it, and those of the bare runs."""
    costs, bare = [], []
    for _ in range(PAIRS):
        bare.append(bare_playbook(play))
        began = perf_counter()
        job = stack.launch(client, bundle)
        # a reader that waits 20 ms between two looks sees the end 10 ms late on average
        stack.wait(client, [job.id])
        costs.append((perf_counter() - began) * 1000 - bare[-1])
    return costs, bare


def bare_playbook(play: Path) -> float:
    """Milliseconds of ``ansible-playbook`` on the same input, without the dispatcher."""
    inventory = play.with_name("bare-hosts")
    inventory.write_text(LOCALHOST)
    began = perf_counter()
    subprocess.run(
        [installed("ansible-playbook"), "-i", str(inventory), "site.yml"],
        cwd=play,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
        check=True,
        capture_output=True,
    )
    return (perf_counter() - began) * 1000
