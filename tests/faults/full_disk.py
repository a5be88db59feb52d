"""A node's disk is full: it must stop claiming, say why, and be well again by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import text

from dispatcher.errors import DispatcherError
from tests.faults.cluster import Cluster

if TYPE_CHECKING:
    from tests.faults.injections import Injected

#: Seconds for an agent, which may have to start first, to see it and to say so.
_SEEN: Final = 60.0


def fill(cluster: Cluster, directory: Path, made: Injected, *, left: int, seconds: float) -> None:
    """Fill a worker's disk, look at what its node says, and free it.

    Args:
        directory: the worker's; a small disk of its own.
        left: bytes that stay free.
        seconds: for which it stays full once the node has said so.
    """
    node = directory.name.removeprefix("worker-")
    made.harmed += cluster.runs_of(directory)
    ballast = cluster.disks.fill(directory, left)
    agents = _agents(directory)
    try:
        said = _within(_SEEN, lambda: "is full" in _row(cluster, node).reason)
        since = _row(cluster, node).now
        made.harmed += cluster.runs_of(directory)
        if said:
            time.sleep(seconds)
            made.findings += _look(cluster, node, since)
        elif agents and agents == _agents(directory):
            made.findings.append(f"{node} does not say that its disk is full")
        made.harmed += cluster.runs_of(directory)
    finally:
        ballast.unlink()
    if not _within(_SEEN, lambda: not _row(cluster, node).reason):
        words = _row(cluster, node).reason
        made.findings.append(f"{node} takes no jobs although its disk has room again: {words}")


def _agents(directory: Path) -> list[str]:
    """The agent of this directory, as it wrote itself into its lock."""
    try:
        return [(directory / "agent.lock").read_text()]
    except OSError:
        return []


class _Row:
    def __init__(self, reason: str, now: datetime) -> None:
        self.reason, self.now = reason, now


def _row(cluster: Cluster, node: str) -> _Row:
    with cluster.engine.connect() as connection:
        found = connection.execute(
            text("SELECT not_accepting_reason, dispatcher_now() FROM node WHERE name = :node"),
            {"node": node},
        ).one()
    return _Row(*found)


def _look(cluster: Cluster, node: str, since: datetime) -> list[str]:
    """While it is full: nothing is claimed there, and the list of nodes has the reason."""
    findings = []
    with cluster.engine.connect() as connection:
        claimed = connection.scalars(
            text(
                "SELECT j.id FROM job AS j JOIN node AS n ON n.id = j.node_id"
                " WHERE n.name = :node AND j.started > :since"
            ),
            {"node": node, "since": since},
        ).all()
    if claimed:
        findings.append(f"{node} has claimed jobs {list(claimed)} while its disk was full")
    try:
        with cluster.client() as client:
            shown = next(each for each in client.nodes() if each.name == node)
    except DispatcherError:
        return findings  # the API is what another finding is about
    if "is full" not in shown.errors:
        findings.append(f"the list of nodes does not say that the disk of {node} is full")
    return findings


def _within(seconds: float, seen: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not seen():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
