"""What a planner is given: frozen values read in one snapshot of the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dispatcher.domain.status import Kind, Status


@dataclass(frozen=True, slots=True)
class Dependency:
    """A job that another one waits for."""

    job_id: int
    kind: Kind
    name: str
    status: Status


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A candidate of the TaskManager."""

    id: int
    kind: Kind
    name: str
    organization_id: int
    rank: float
    task_impact: int
    forks: int
    preferred_groups: tuple[int, ...]
    host_lock: str = "none"
    lock_keys: tuple[str, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    strikes: int = 0


@dataclass(frozen=True, slots=True)
class ActiveJob:
    """A waiting or running job: it holds capacity, locks and limits."""

    id: int
    kind: Kind
    status: Status
    organization_id: int
    node_id: int | None
    instance_group_id: int | None
    task_impact: int
    forks: int
    host_lock: str = "none"
    lock_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """One of our machines. ``state`` is its lease's: alive, suspect, lost, left."""

    id: int
    name: str
    capacity: int
    max_jobs: int
    state: str
    enabled: bool
    draining: bool
    accepting: bool

    @property
    def takes_jobs(self) -> bool:
        """Whether a job may be started on it."""
        return self.state == "alive" and self.enabled and not self.draining and self.accepting


@dataclass(frozen=True, slots=True)
class Group:
    """An instance group; a limit of 0 is none."""

    id: int
    name: str
    max_concurrent_jobs: int
    max_forks: int
    node_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class World:
    """Everything but the pending jobs, read once in a pass (docs/protocols.md 7.4)."""

    now: datetime
    nodes: tuple[Node, ...]
    groups: tuple[Group, ...]
    active: tuple[ActiveJob, ...]
