"""A job of a million events while the database does not answer for a minute: who holds how much.

Events are made by the stand-in for ansible-playbook (:mod:`benchmarks.stand_in`), the smallest part
that can be replaced: Ansible itself would need a quarter of an hour for them. Everything that could
hold events in memory is the real thing: ansible-runner's reading of the terminal and its files, the
supervisor, the spool, the agent that ships it. Quota and leases are as shipped.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from sqlalchemy import text

from benchmarks.figures import Figure
from benchmarks.memory import peak_mb
from benchmarks.stand_in import StandIns, stand_ins
from tests.waiting import wait_until

EVENTS = 1_000_000
#: Events that are stored before the database stops, and seconds for which it does not answer.
BEFORE: Final = 20_000
PAUSE: Final = 60.0


def measure() -> list[Figure]:
    """Largest resident set of the agent and of the supervisor, in MB."""
    with stand_ins(("n1",)) as jobs, jobs.cluster.client() as client:
        agent = jobs.cluster.pids("agent")[0]
        at_rest = peak_mb(agent)
        began = time.monotonic()
        job = jobs.launch(client, events=EVENTS)
        wait_until(lambda: _stored(jobs) >= BEFORE, timeout=120, what="events are stored")
        supervisor = jobs.cluster.pids("supervisor")[0]
        held = _pause(jobs)
        peak = 0.0
        while not jobs.count("finished IS NOT NULL"):
            peak = max(peak, _peak(supervisor))
            time.sleep(0.2)
        seconds = time.monotonic() - began
        ended = client.job(job)
        # besides its results: start, play and recap
        if (ended.status, _stored(jobs)) != ("successful", EVENTS + 3):
            raise AssertionError(f"{ended.status} with {_stored(jobs)} events: {ended.explanation}")
        of_agent = peak_mb(agent)
    words = (
        f"{EVENTS:,} events in {seconds:.0f} s, database away for {PAUSE:g} s,"
        f" {held >> 20} MB spooled meanwhile"
    )
    return [
        Figure("million_events_agent_memory", of_agent, "MB", f"at rest {at_rest:.0f} MB; {words}"),
        Figure("million_events_supervisor_memory", peak, "MB", words),
    ]


def _pause(jobs: StandIns) -> int:
    """Let the database answer nobody for a while; bytes that were spooled and not stored then."""
    proxy = jobs.cluster.database_proxy
    proxy.stall()
    time.sleep(PAUSE)
    (run,) = jobs.cluster.directory.glob("worker-n1/runs/*/")
    spooled = sum(each.stat().st_size for each in Path(run, "spool").iterdir())
    proxy.restore()
    return spooled


def _peak(supervisor: int) -> float:
    """Its largest resident set; 0 when it has ended."""
    try:
        return peak_mb(supervisor)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def _stored(jobs: StandIns) -> int:
    with jobs.cluster.engine.connect() as connection:
        found = connection.execute(text("SELECT coalesce(sum(stored), 0) FROM job_progress"))
        return int(found.scalar_one())
