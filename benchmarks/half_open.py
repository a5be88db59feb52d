"""Half-open connections: the far end is gone, and the near end is never told.

A proxy drops everything on the connections that are open, to the database, then to the broker, and
takes new ones. TCP never notices: the proxy acknowledges what it drops, as a balancer does. A figure
is the longest time for which a role waits on such a connection, with a job a second as traffic. One
that lies idle in a pool is found when it is next used, and counts from then.
"""

from __future__ import annotations

import time
from typing import Final

from benchmarks.figures import Figure
from benchmarks.stand_in import StandIns, stand_ins
from dispatcher.client.client import Client
from tests.faults.audit import audit
from tests.tcp_proxy import TcpProxy

#: Seconds of traffic, longer than what any role takes; and when whoever still waits is given up.
TRAFFIC: Final = 45.0
LONGEST: Final = 180.0


def measure() -> list[Figure]:
    """Seconds that the last role needs, of both servers; no job may suffer."""
    with stand_ins(keep_run_directory=1.0) as jobs, jobs.cluster.client() as client:
        for _ in range(10):
            jobs.launch(client)
        jobs.wait_ended(timeout=60)
        database = _detected("database", jobs, client, jobs.cluster.database_proxy)
        broker = _detected("broker", jobs, client, jobs.cluster.broker_proxy)
        jobs.wait_ended(timeout=120)
        if findings := audit(jobs.cluster, jobs, []):
            raise AssertionError("; ".join(findings))
    return [
        Figure(
            "half_open_detected", max(database[0], broker[0]), "s", f"{database[1]}; {broker[1]}"
        )
    ]


def _detected(name: str, jobs: StandIns, client: Client, proxy: TcpProxy) -> tuple[float, str]:
    """The longest wait in seconds, and words."""
    proxy.abandon()
    began = launched = time.monotonic()
    _, all_of_them = proxy.half_open()
    while (past := time.monotonic() - began) < LONGEST:
        if past > TRAFFIC and not proxy.half_open()[0]:
            break
        if time.monotonic() - launched >= 1:
            launched = time.monotonic()
            jobs.launch(client)
        time.sleep(0.05)
    waiting, idle = proxy.half_open()
    longest = max([*proxy.given_up, *([LONGEST] if waiting else [])], default=0.0)
    used = len(proxy.given_up)
    return longest, f"{name} {longest:.1f} s, {used} of {all_of_them} used, {idle} idle to the end"
