"""What may be wrong with a cluster, from facts that somebody has read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

#: Seconds of difference between a machine's clock and the database's that nobody needs to look at.
CLOCK_CLOSE: Final = 1.0
#: Seconds from which log times and metrics mislead; no decision depends on it.
CLOCK_FAR: Final = 5.0
#: Share of the database's connections from which there may soon be none left.
_CONNECTIONS_HIGH: Final = 0.9
#: Seconds after which a job that its node has not taken is worth a look.
WAITING_LONG: Final = 60.0
#: Names in one finding, at most.
_NAMED: Final = 5


class Level(IntEnum):
    """How bad a finding is."""

    OK = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: what: ``database``, ``broker``, ``clock``, ``nodes``, ``jobs`` …
        words: what was found.
    """

    level: Level
    subject: str
    words: str


@dataclass(frozen=True)
class DatabaseFacts:
    """What a PostgreSQL server says of itself.

    Attributes:
        standby: it replays another server's log and takes no writes.
        followers: servers that follow this one.
        synchronous_standby_names, synchronous_commit, fsync: its settings.
        connections, max_connections: in use, and the most there may be.
    """

    version: str
    standby: bool
    followers: int
    synchronous_standby_names: str
    synchronous_commit: str
    fsync: bool
    connections: int
    max_connections: int


@dataclass(frozen=True)
class NodeFacts:
    """A node as its row says.

    Attributes:
        trouble: why it takes no jobs; empty when it does.
        version: of its package.
    """

    name: str
    trouble: str
    version: str


@dataclass(frozen=True)
class LostRun:
    """A job that ended with its node, whose later events are nowhere stored.

    Attributes:
        stored: events that are.
        directory: where its run directory, with what was not stored, is on this machine.
    """

    job_id: int
    node: str
    stored: int
    directory: str = ""


def check_database(facts: DatabaseFacts) -> Iterator[Finding]:
    """Whether a commit that was answered can be lost, which voids "a job starts at most once"
    (docs/protocols.md 8.1), and whether there is room.
    """
    wrong = list(_losable(facts))
    for words in wrong:
        yield Finding(Level.ERROR, "database", words)
    used = f"{facts.connections} of {facts.max_connections} connections in use"
    if facts.connections >= facts.max_connections * _CONNECTIONS_HIGH:
        yield Finding(Level.WARNING, "database", used)
    elif not wrong:
        yield Finding(Level.OK, "database", f"PostgreSQL {facts.version}, {used}")


def _losable(facts: DatabaseFacts) -> Iterator[str]:
    if facts.standby:
        yield "it is a standby and takes no writes: DISPATCHER_DATABASE_URL must name the primary"
    if not facts.fsync:
        yield "fsync is off: a crash of its machine loses commits, and jobs may start twice"
    if facts.synchronous_commit == "off":
        yield "synchronous_commit is off: a crash loses commits, and jobs may start twice"
    elif facts.followers and (
        not facts.synchronous_standby_names or facts.synchronous_commit == "local"
    ):
        yield (
            f"{facts.followers} servers follow it and no commit waits for one: a fail-over loses"
            " commits, and jobs may start twice; set synchronous_standby_names and"
            " synchronous_commit = on"
        )


def check_clock(seconds: float) -> Finding:
    """How far this machine's clock is from the database's.

    Args:
        seconds: positive when this machine's is ahead.
    """
    level = Level.OK
    if abs(seconds) >= CLOCK_FAR:
        level = Level.ERROR
    elif abs(seconds) >= CLOCK_CLOSE:
        level = Level.WARNING
    return Finding(level, "clock", f"this machine's is {seconds:+.3f} s from the database's")


def check_nodes(nodes: Sequence[NodeFacts], version: str) -> Iterator[Finding]:
    """Which nodes take no jobs, and why; which run another version than this package's."""
    troubled = [node for node in nodes if node.trouble]
    for node in troubled:
        yield Finding(Level.WARNING, "nodes", f"{node.name}: {node.trouble}")
    others = [f"{n.name} ({n.version})" for n in nodes if n.version and n.version != version]
    if others:
        yield Finding(Level.WARNING, "nodes", f"not version {version}: {_listed(others)}")
    fit = len(nodes) - len(troubled)
    level = Level.OK if fit else Level.ERROR
    yield Finding(level, "nodes", f"{fit} of {len(nodes)} take jobs")


def check_jobs(waiting_long: int, lost: Sequence[LostRun]) -> Iterator[Finding]:
    """Jobs that something is wrong with.

    Args:
        waiting_long: jobs that were given to a node more than a minute ago and not taken.
        lost: those that ended with their node lately.
    """
    if waiting_long:
        yield Finding(
            Level.WARNING,
            "jobs",
            f"{waiting_long} wait for their node for more than {WAITING_LONG:.0f} s",
        )
    for run in lost[:_NAMED]:
        words = f"job {run.job_id} ended with its node {run.node}; {run.stored} events are stored"
        if run.directory:
            words += f", what came later is in {run.directory} and never will be"
        yield Finding(Level.WARNING, "jobs", words)
    if len(lost) > _NAMED:
        words = f"{len(lost) - _NAMED} more jobs ended with their nodes in the last day"
        yield Finding(Level.WARNING, "jobs", words)
    if not waiting_long and not lost:
        yield Finding(Level.OK, "jobs", "none waits long for its node, none was lost with one")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
