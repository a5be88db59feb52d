"""What a planner is given: frozen values read in one snapshot of the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from dispatcher.domain.status import Kind, Status


@dataclass(frozen=True, slots=True)
class Dependency:
    """A job that another one waits for."""

    job_id: int
    kind: Kind
    name: str
    status: Status


# a tuple, like those of workflows below: a pass reads tens of thousands, and a frozen dataclass
# takes thrice as long to make
class PendingJob(NamedTuple):
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
        held_since: since when it has been kept waiting by what it could keep its turn on; None: not
            yet. Seconds since 1970.
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
    held_since: float | None = None
    job_template_id: int | None = None
    workflow_job_template_id: int | None = None
    project_id: int | None = None
    inventory_id: int | None = None
    inventory_source_id: int | None = None
    allow_simultaneous: bool = True


class ActiveJob(NamedTuple):
    """A waiting or running job: it holds capacity, locks and limits.

    With every default it is *plain*: it holds nothing but room, as nearly all do.
    """

    id: int
    organization_id: int
    node_id: int | None
    instance_group_id: int | None
    task_impact: int
    forks: int
    created: float
    job_template_id: int | None
    kind: Kind = Kind.PLAYBOOK
    host_lock: str = "none"
    lock_keys: tuple[str, ...] = ()
    workflow_job_template_id: int | None = None
    project_id: int | None = None
    inventory_id: int | None = None
    inventory_source_id: int | None = None
    allow_simultaneous: bool = True


@dataclass(frozen=True, slots=True)
class CoolingJob:
    """A job that was stopped by force: its exclusive locks are kept a while longer.

    Attributes:
        until: seconds since 1970.
    """

    id: int
    lock_keys: tuple[str, ...]
    until: float


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
        cooling: jobs that have ended and keep their locks for a while.
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
    cooling: tuple[CoolingJob, ...] = ()


@dataclass(frozen=True, slots=True)
class UnprocessedJob:
    """A candidate of the DependencyManager: pending, its dependencies not known yet.

    Attributes:
        project_id, branch: what it runs from; None: nothing.
        inventory_id: whose sources may have to be updated; of a playbook job.
        source_id: of an inventory update.
    """

    id: int
    kind: Kind
    project_id: int | None = None
    branch: str = ""
    inventory_id: int | None = None
    source_id: int | None = None


@dataclass(frozen=True, slots=True)
class Updates:
    """What is known of the updates of one thing: a project at a branch, or an inventory source.

    Attributes:
        active: the newest one that is pending, waiting or running and not to be canceled.
        last_status, last_age: of the one that finished last; seconds since then. None: there is
            none.
        ever: one was successful, and what it found is still there.
    """

    active: int | None = None
    last_status: Status | None = None
    last_age: float | None = None
    ever: bool = False


@dataclass(frozen=True, slots=True)
class ProjectRule:
    """When a project is to be updated."""

    update_on_launch: bool
    cache_timeout: float


@dataclass(frozen=True, slots=True)
class SourceRule:
    """When an inventory source is to be updated, and the project (at its branch) it is a file of."""

    id: int
    project_id: int
    branch: str
    update_on_launch: bool
    cache_timeout: float


@dataclass(frozen=True, slots=True)
class UpdateWorld:
    """Everything that unprocessed jobs may depend on, read with them.

    Attributes:
        projects, sources: rules, by id.
        sources_of: inventory → its sources, in order of id.
        project_updates: by (project id, branch).
        source_updates: by source id.
    """

    projects: Mapping[int, ProjectRule] = field(default_factory=dict)
    sources: Mapping[int, SourceRule] = field(default_factory=dict)
    sources_of: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    project_updates: Mapping[tuple[int, str], Updates] = field(default_factory=dict)
    source_updates: Mapping[int, Updates] = field(default_factory=dict)


class ChildJob(NamedTuple):
    """The job that a workflow node stands for.

    Attributes:
        finished: when it ended, by the database's clock.
        has_artifacts: whether it left any (``set_stats``).
        expired: an approval that nobody decided in time, by the database's clock.
    """

    id: int
    status: Status
    cancel_requested: bool = False
    finished: datetime | None = None
    has_artifacts: bool = False
    expired: bool = False


# a tuple: a look at every workflow makes ten thousand, and a frozen dataclass takes thrice as long
class WorkflowNode(NamedTuple):
    """One step of a workflow job; ``job`` is None until it is spawned.

    Attributes:
        spawns: what it makes, a word of ``NODE_SPAWNS``.
        lost: what it was to spawn was deleted.
        must_converge: it runs only if every parent leads to it (ALL); else ANY.
        start_failure: why no job could be made of it; empty: none failed.
        attempt: jobs that were made of it.
    """

    id: int
    identifier: str
    do_not_run: bool = False
    job: ChildJob | None = None
    spawns: str = "job_template"
    lost: bool = False
    must_converge: bool = False
    start_failure: str = ""
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class WorkflowJob:
    """A running workflow job with all of its nodes.

    Attributes:
        edges: (parent, child, kind): ids of its nodes, and ``success``, ``failure`` or ``always``.
    """

    id: int
    cancel_requested: bool
    nodes: tuple[WorkflowNode, ...]
    edges: tuple[tuple[int, int, str], ...] = ()
