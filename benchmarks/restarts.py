"""A server of the cluster is killed and comes back under 20 running and 200 queued jobs.

Shipped settings, two nodes, the stand-in for ansible-playbook (:mod:`benchmarks.stand_in`). The
running jobs end while the server is away. A figure is the time from the server's first answer until
as many of the queued ones as ran before have been claimed; then every job must have come to its end,
once, with all of its events, as the audit of the fault suite wants it.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import text

from benchmarks.figures import Figure
from benchmarks.stand_in import StandIns, stand_ins
from dispatcher.client.client import Client
from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.embedded.valkey import EmbeddedValkey
from tests.faults.audit import audit
from tests.faults.injections import restart
from tests.waiting import wait_until

RUNNING, QUEUED = 20, 200
#: Seconds for which the server is gone.
AWAY: Final = 3.0
#: What 20 running jobs on one host each leave no room beside, on two nodes.
CAPACITY: Final = 20


def measure() -> list[Figure]:
    """Seconds until starts go on after each server's restart; nothing is lost."""
    with (
        stand_ins(node_capacity=CAPACITY, keep_run_directory=1.0) as jobs,
        jobs.cluster.client() as client,
    ):
        servers = {
            "valkey_restart_resumes": jobs.cluster.valkey,
            "postgres_restart_resumes": jobs.cluster.postgres,
        }
        return [_resumes(name, jobs, client, server) for name, server in servers.items()]


def _resumes(
    name: str, jobs: StandIns, client: Client, server: EmbeddedPostgres | EmbeddedValkey
) -> Figure:
    gate = jobs.cluster.directory / name
    before = len(jobs.accepted)
    for _ in range(RUNNING + QUEUED):
        jobs.launch(client, gate=str(gate))
    wait_until(
        lambda: jobs.witness.read_text().count(" begin ") == before + RUNNING,
        timeout=120,
        what="the first jobs run",
    )
    assert jobs.count("status = 'pending'") == QUEUED
    gate.touch()
    restart(server, hard=True, seconds=AWAY)
    times = _claims(jobs)
    jobs.wait_ended(timeout=300)
    findings = audit(jobs.cluster, jobs, [])
    if findings:
        raise AssertionError("; ".join(findings))
    words = (
        f"kill -9, {AWAY:g} s away; first start {times[0]:.1f} s after it was back,"
        f" {RUNNING} of {QUEUED} queued ones at the value; all {RUNNING + QUEUED} ended well, once"
    )
    return Figure(name, times[-1], "s", words)


def _claims(jobs: StandIns) -> list[float]:
    """When the next jobs were claimed, in seconds from now, by the database's clock."""
    with jobs.cluster.engine.connect() as connection:
        back = connection.execute(text("SELECT dispatcher_now()")).scalar_one()

    def claims() -> list[float] | None:
        with jobs.cluster.engine.connect() as connection:
            found = connection.scalars(
                text(
                    "SELECT EXTRACT(epoch FROM started - :back) FROM job WHERE started > :back"
                    " ORDER BY started LIMIT :most"
                ),
                {"back": back, "most": RUNNING},
            )
            times = [float(each) for each in found]
            return times if len(times) == RUNNING else None

    return wait_until(claims, timeout=120, what="queued jobs start") or []
