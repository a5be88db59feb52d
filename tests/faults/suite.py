"""One run of the fault-injection suite: load, injections, repair, audit, report."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults.audit import audit
from tests.faults.cluster import Cluster
from tests.faults.injections import Injected, Injector
from tests.faults.load import Load

#: Seconds after the last repair in which every job must have become final and its traces gone.
_SETTLED: Final = 240.0


@dataclass
class Report:
    """What was done and what was found.

    Attributes:
        settled: seconds from the last repair until every job was final and its directory gone.
        refusals: calls of the API that were not answered in all the patience of a client.
    """

    seed: int
    injected: list[Injected]
    outcomes: Counter[str]
    findings: list[str]
    settled: float
    refusals: list[str]

    def words(self) -> str:
        """The printed report."""
        lines = [f"seed {self.seed}: {len(self.injected)} injections"]
        lines += [f"  {each.at:7.1f} s  {each.words}" for each in self.injected]
        lines.append(f"jobs: {self.outcomes.total()}")
        lines += [f"  {count:5d}  {outcome}" for outcome, count in self.outcomes.most_common()]
        lines.append(f"all final and cleared {self.settled:.1f} s after the last repair")
        lines += [f"refused: {words}" for words in self.refusals]
        lines += [f"FOUND: {words}" for words in self.findings]
        lines.append(f"{len(self.findings)} findings")
        return "\n".join(lines)


def run(
    directory: Path, *, seconds: float, seed: int, say: Callable[[str], None] = lambda words: None
) -> Report:
    """Break a cluster for some time, mend it, and look what became of the jobs.

    Args:
        directory: a new one, short, open to the database server's account (0711).
        seconds: of injections.
        seed: of every choice.
        say: takes a line for whoever watches.
    """
    cluster = Cluster(directory, random.Random(seed))
    try:
        cluster.start()
        say(f"{len(cluster.roles)} roles run, {len(cluster.nodes)} nodes among them")
        load = Load(cluster, seed)
        load.start()
        injector = Injector(cluster, random.Random(seed))
        pauses = random.Random(seed + 1)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(pauses.uniform(0.2, 3))
            say(f"{len(load.accepted):5d} jobs accepted; {injector.inject().words}")
        load.stop()
        mended = time.monotonic()
        say("no more injections; waiting until every job is final")
        _settle(cluster, load)
        settled = time.monotonic() - mended
        findings = audit(cluster, load, injector.done)
        with cluster.client() as client:
            outcomes = Counter(client.job(each.job_id).outcome for each in load.accepted)
    finally:
        cluster.stop()
        left = cluster.left_over()
        cluster.kill_left_over()
    findings += [f"left when everything had stopped: {words}" for words in left]
    return Report(seed, injector.done, outcomes, findings, settled, load.refusals)


def _settle(cluster: Cluster, load: Load) -> None:
    """Wait until every job is final and its directory gone, or long enough."""
    deadline = time.monotonic() + _SETTLED
    with cluster.client(patience=120) as client:
        while time.monotonic() < deadline:
            if not load.unfinished(client) and not list(cluster.directory.glob("worker-*/runs/*")):
                return
            time.sleep(0.5)
