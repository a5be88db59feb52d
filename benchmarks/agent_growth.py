"""Memory of an agent after a thousand jobs over that after a hundred.

Each with all that an agent does for one: claim, content, supervisor, events, end, clearing away. The
stand-in for ansible-playbook (:mod:`benchmarks.stand_in`) plays them; the agent never sees Ansible.
"""

from __future__ import annotations

from typing import Final

from benchmarks.figures import Figure
from benchmarks.memory import rss_mb
from benchmarks.stand_in import StandIns, stand_ins
from dispatcher.client.client import Client

FEW, MANY = 100, 1_000
#: Room for eight jobs on one host each at once.
CAPACITY: Final = 16


def measure() -> list[Figure]:
    """Ratio of the resident sets, both read when nothing runs."""
    with (
        # a finished run is remembered until its directory is removed: here, at once
        stand_ins(("n1",), node_capacity=CAPACITY, keep_run_directory=1.0) as jobs,
        jobs.cluster.client() as client,
    ):
        (agent,) = jobs.cluster.pids("agent")
        at_rest = rss_mb(agent)
        few = _after(jobs, client, agent, FEW)
        many = _after(jobs, client, agent, MANY)
    words = f"at rest {at_rest:.1f}, after {FEW} {few:.1f}, after {MANY:,} {many:.1f} MB"
    return [Figure("agent_rss_1000_over_100", many / few, "ratio", words)]


def _after(jobs: StandIns, client: Client, agent: int, total: int) -> float:
    """The agent's resident set in MB when so many jobs have ended well."""
    while len(jobs.accepted) < total:
        jobs.launch(client, events=5)
    jobs.wait_ended(timeout=600)
    if (well := jobs.count("status = 'successful'")) != total:
        raise AssertionError(f"{well} of {total} jobs ended well")
    if jobs.cluster.pids("agent") != [agent]:
        raise AssertionError("the agent was started anew")
    return rss_mb(agent)
