"""What recovery's planner is given: what was seen of the nodes, and the rows they hold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """A node's lease beside what recovery remembers of it (``node_watch``).

    Attributes:
        state: the lease's state: alive, suspect, lost or left.
        seq: the lease's renewal counter as it is now.
        watched_seq: the counter at the last counted tick; None: never watched.
        missed: ticks in a row at which the counter had not moved.
        ticked_at: the database's clock at the last counted tick; None: never watched.
        running_jobs: jobs that are running on the node.
    """

    node_id: int
    state: str
    seq: int
    watched_seq: int | None
    missed: int
    ticked_at: datetime | None
    running_jobs: int


@dataclass(frozen=True, slots=True)
class Observations:
    """Every node that was not removed, read in one snapshot.

    Attributes:
        now: the database's clock in the snapshot.
        heartbeat: seconds between two renewals of a node.
        node_lost_after: seconds without renewal after which a node counts as lost.
    """

    now: datetime
    heartbeat: float
    node_lost_after: float
    nodes: tuple[NodeObservation, ...]


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A job that waits for its node's claim.

    Attributes:
        node_state: the lease's state.
        node_removed: the node's row is a tombstone.
        submissions: how often it was submitted, the first time included.
        queued_on_node: the node has said that it holds it until it has room.
        node_shut: ``disabled`` or ``draining``: operators want no more of it there.
    """

    job_id: int
    dispatch_id: UUID
    node_name: str
    node_state: str
    node_removed: bool
    waiting_since: datetime
    submitted_at: datetime
    submissions: int
    queued_on_node: bool
    node_shut: str = ""


@dataclass(frozen=True, slots=True)
class RunningRow:
    """A job that runs on a node; only those of nodes that are not alive need to be read."""

    job_id: int
    dispatch_id: UUID
    node_name: str
    node_state: str


@dataclass(frozen=True, slots=True)
class RecoverySnapshot:
    """The rows that recovery looks at, read after the nodes' states were written.

    Attributes:
        now: the database's clock in the snapshot.
        submission_grace: seconds after which a submission is repeated the first time.
        waiting_limit: seconds that a job may wait on a node that does not say it is queued there.
    """

    now: datetime
    submission_grace: float
    waiting_limit: float
    waiting: tuple[WaitingRow, ...] = ()
    running: tuple[RunningRow, ...] = ()
