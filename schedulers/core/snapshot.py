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
    """A candidate of the TaskManager: any kind but an approval (docs/protocols.md 3.9).

    Attributes:
        rank: the stored order within a tenant: seconds since 1970 at creation, less a step for
            each point of priority.
        task_impact: what it takes of a node's capacity.
        forks: what it takes of a group's ``max_forks``.
        preferred_groups: ids of instance groups, in the order in which they are tried.
        lock_keys: what ``host_lock`` (``none``, ``shared``, ``exclusive``) holds: opaque words,
            of hosts or of whole inventories; equal words collide.
        strikes: how often deciding or applying it has raised; not looked at by the planner.
        created: seconds since 1970.
    """

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
    created: float = 0.0
    job_template_id: int | None = None
    workflow_job_template_id: int | None = None
    project_id: int | None = None
    inventory_id: int | None = None
    inventory_source_id: int | None = None
    allow_simultaneous: bool = True


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
    created: float = 0.0
    job_template_id: int | None = None
    workflow_job_template_id: int | None = None
    project_id: int | None = None
    inventory_id: int | None = None
    inventory_source_id: int | None = None
    allow_simultaneous: bool = True


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
class Tenant:
    """An organization: its weight among the tenants that take turns; a limit of 0 is none."""

    id: int
    name: str
    weight: float = 1.0
    max_concurrent_jobs: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tenant's ended jobs, created about then, have used lately.

    Attributes:
        impact: their average impact over the time that counts as lately.
    """

    organization_id: int
    created: float
    impact: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause switch: of a group, of a tenant, or with neither of everything."""

    group_id: int | None = None
    organization_id: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class World:
    """Everything but the pending jobs, read once in a pass (docs/protocols.md 7.4).

    Attributes:
        now: the database's clock in the snapshot.
        nodes: every node that was not removed, whatever its state.
        active: every waiting and running job, workflow jobs among them.
        reserve_after: seconds after which a job that is kept waiting is not overtaken any more.
        recent: what ended jobs have used lately.
        template_limits: job template → most jobs of it at once.
    """

    now: datetime
    nodes: tuple[Node, ...]
    groups: tuple[Group, ...]
    active: tuple[ActiveJob, ...]
    reserve_after: float = 60.0
    tenants: tuple[Tenant, ...] = ()
    recent: tuple[Usage, ...] = ()
    template_limits: tuple[tuple[int, int], ...] = ()
    pauses: tuple[Pause, ...] = ()


@dataclass(frozen=True, slots=True)
class UnprocessedJob:
    """A candidate of the DependencyManager: pending, its dependencies not known yet."""

    id: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class ChildJob:
    """The job that a workflow node stands for."""

    id: int
    status: Status
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class WorkflowNode:
    """One step of a workflow job; ``job`` is None until it is spawned."""

    id: int
    identifier: str
    do_not_run: bool = False
    job: ChildJob | None = None


@dataclass(frozen=True, slots=True)
class WorkflowJob:
    """A running workflow job with all of its nodes."""

    id: int
    cancel_requested: bool
    nodes: tuple[WorkflowNode, ...]
