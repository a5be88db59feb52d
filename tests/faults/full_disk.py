"""A node's disk is full: it must stop claiming, say why, and be well again by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
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
        said = _within(_SEEN, lambda: "is full" in _reason(cluster, node))
        before = _claimed(cluster, node)
        made.harmed += cluster.runs_of(directory)
        if said:
            time.sleep(seconds)
            made.findings += _look(cluster, node, before)
        elif agents and agents == _agents(directory):
            made.findings.append(f"{node} does not say that its disk is full")
        made.harmed += cluster.runs_of(directory)
    finally:
        ballast.unlink()
    if not _within(_SEEN, lambda: not _reason(cluster, node)):
        words = _reason(cluster, node)
        made.findings.append(f"{node} takes no jobs although its disk has room again: {words}")


def _agents(directory: Path) -> list[str]:
    """The agent of this directory, as it wrote itself into its lock."""
    try:
        return [(directory / "agent.lock").read_text()]
    except OSError:
        return []


def _reason(cluster: Cluster, node: str) -> str:
    with cluster.engine.connect() as connection:
        return str(
            connection.execute(
                text("SELECT not_accepting_reason FROM node WHERE name = :node"), {"node": node}
            ).scalar_one()
        )


def _claimed(cluster: Cluster, node: str) -> set[int]:
    """Jobs that the node has claimed so far. Not by their times: the clock is moved, too."""
    with cluster.engine.connect() as connection:
        return set(
            connection.scalars(
                text(
                    "SELECT j.id FROM job AS j JOIN node AS n ON n.id = j.node_id"
                    " WHERE n.name = :node AND j.started IS NOT NULL"
                ),
                {"node": node},
            )
        )


def _look(cluster: Cluster, node: str, before: set[int]) -> list[str]:
    """While it is full: nothing is claimed there, and the list of nodes has the reason."""
    findings = []
    claimed = sorted(_claimed(cluster, node) - before)
    if claimed:
        findings.append(f"{node} has claimed jobs {claimed} while its disk was full")
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
