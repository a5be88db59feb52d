"""The TaskManager's rules for young jobs written a second time, slowly: everything is scanned.

It shares no code with the planner but the snapshot's types, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dispatcher.domain.status import Kind, Status
from schedulers.core.decision import Begin, Fail, Start, TaskDecision
from schedulers.core.snapshot import ActiveJob, Group, Node, Pause, PendingJob, World

Verdict = Start | Begin | str

BAD = (Status.FAILED, Status.ERROR, Status.CANCELED)
UNFINISHED = (Status.PENDING, Status.WAITING, Status.RUNNING)


def oracle(world: World, jobs: Iterable[PendingJob]) -> dict[int, Verdict]:
    """Start, Begin, or the word of the refusal, by job id."""
    held: list[ActiveJob] = list(world.active)
    verdicts: dict[int, Verdict] = {}
    waiting = list(jobs)
    while waiting:
        job = min(_heads(waiting), key=lambda job: (_served(world, held, job), job.rank, job.id))
        waiting.remove(job)
        verdict = _verdict(world, held, job)
        verdicts[job.id] = verdict
        if isinstance(verdict, Start | Begin):
            started = isinstance(verdict, Start)
            held.append(
                ActiveJob(
                    id=job.id,
                    kind=job.kind,
                    organization_id=job.organization_id,
                    node_id=verdict.node_id if started else None,
                    instance_group_id=verdict.instance_group_id if started else None,
                    task_impact=job.task_impact if started else 0,
                    forks=job.forks,
                    host_lock=job.host_lock if started else "none",
                    lock_keys=job.lock_keys,
                    created=job.created,
                    job_template_id=job.job_template_id,
                    workflow_job_template_id=job.workflow_job_template_id,
                    project_id=job.project_id,
                    inventory_id=job.inventory_id,
                    inventory_source_id=job.inventory_source_id,
                    allow_simultaneous=job.allow_simultaneous,
                )
            )
    return verdicts


def _heads(waiting: list[PendingJob]) -> list[PendingJob]:
    """The first job of each tenant."""
    tenants = {job.organization_id for job in waiting}
    return [
        min((j for j in waiting if j.organization_id == tenant), key=lambda j: (j.rank, j.id))
        for tenant in tenants
    ]


def _served(world: World, held: list[ActiveJob], job: PendingJob) -> float:
    """What the job's tenant has in use for its weight, but for what was created minutes later."""
    uses = [(row, row.task_impact * 1.0) for row in held]
    rows = [*uses, *((row, row.impact) for row in world.recent)]
    used = sum(
        round(1000 * impact)
        for row, impact in rows
        if row.organization_id == job.organization_id and row.created // 60 <= job.created // 60
    )
    weights = {tenant.id: tenant.weight for tenant in world.tenants}
    return used / weights.get(job.organization_id, 1.0)


def summary(decision: TaskDecision) -> Verdict:
    """A decision in the oracle's words."""
    if isinstance(decision, Start | Begin):
        return decision
    if isinstance(decision, Fail):
        return "fail"
    return decision.reason.code if hasattr(decision, "reason") else "strike"


def takers(world: World, group: Group) -> list[Node]:
    """The group's nodes that may get a job at all."""
    return [
        node
        for node in world.nodes
        if node.id in group.node_ids
        and (node.state, node.enabled, node.draining, node.accepting)
        == ("alive", True, False, True)
        and node.capacity > 0
    ]


def _verdict(world: World, held: list[ActiveJob], job: PendingJob) -> Verdict:
    statuses = {one.status for one in job.dependencies}
    if statuses & set(BAD):
        return "fail"
    if statuses & set(UNFINISHED):
        return "dependency"
    if any(_switches_off(pause, job) for pause in world.pauses):
        return "paused"
    beside = next((word for word, rule in BESIDE if any(rule(job, o) for o in held)), None)
    if job.kind is Kind.WORKFLOW:
        return beside or Begin(job.id)
    by_id = {group.id: group for group in world.groups}
    groups = [by_id[g] for g in job.preferred_groups if g in by_id]
    if not any(takers(world, group) for group in groups):
        members = {n for group in groups for n in group.node_ids}
        alive = [n for n in world.nodes if n.id in members and n.state == "alive"]
        return "all_drained" if alive else "no_nodes_online"
    if beside is not None:
        return beside
    if any(_collide(job, other) for other in held):
        return "host_lock"
    on_nodes = [o for o in held if o.kind not in (Kind.WORKFLOW, Kind.APPROVAL)]
    mine = [o for o in on_nodes if o.organization_id == job.organization_id]
    if any(0 < t.max_concurrent_jobs <= len(mine) for t in world.tenants if _is_of(job, t.id)):
        return "tenant_limit"
    alike = [o for o in held if _both(job, o, Kind.PLAYBOOK) and _same(job, o, "job_template_id")]
    if any(len(alike) >= most for id, most in world.template_limits if _runs(job, id)):
        return "template_limit"
    return _place(world, held, job, groups)


def _switches_off(pause: Pause, job: PendingJob) -> bool:
    return pause.group_id is None and pause.organization_id in (None, job.organization_id)


def _is_of(job: PendingJob, tenant: int) -> bool:
    return job.organization_id == tenant


def _runs(job: PendingJob, template: int) -> bool:
    return job.kind is Kind.PLAYBOOK and job.job_template_id == template


def _same(job: PendingJob, other: ActiveJob, name: str) -> bool:
    return getattr(job, name) is not None and getattr(job, name) == getattr(other, name)


def _both(job: PendingJob, other: ActiveJob, kind: Kind) -> bool:
    return job.kind is kind and other.kind is kind


#: The rows of the table of what blocks what, in the order in which they are told.
BESIDE: list[tuple[str, Callable[[PendingJob, ActiveJob], bool]]] = [
    (
        "project_update",
        lambda job, other: (
            other.kind is Kind.PROJECT_UPDATE
            and job.kind in (Kind.PROJECT_UPDATE, Kind.PLAYBOOK)
            and _same(job, other, "project_id")
        ),
    ),
    (
        "source_update",
        lambda job, other: (
            _both(job, other, Kind.INVENTORY_UPDATE) and _same(job, other, "inventory_source_id")
        ),
    ),
    (
        "inventory_update",
        lambda job, other: (
            other.kind is Kind.INVENTORY_UPDATE
            and job.kind is Kind.PLAYBOOK
            and _same(job, other, "inventory_id")
        ),
    ),
    (
        "same_workflow_template",
        lambda job, other: (
            _both(job, other, Kind.WORKFLOW)
            and not other.allow_simultaneous
            and _same(job, other, "workflow_job_template_id")
        ),
    ),
    (
        "same_template",
        lambda job, other: (
            (_both(job, other, Kind.PLAYBOOK) or _both(job, other, Kind.WORKFLOW))
            and not other.allow_simultaneous
            and _same(job, other, "job_template_id")
        ),
    ),
    ("exclusive_kind", lambda job, other: _both(job, other, Kind.CLEANUP)),
]


def _place(world: World, held: list[ActiveJob], job: PendingJob, groups: list[Group]) -> Verdict:
    refusals = []
    for group in groups:
        nodes = takers(world, group)
        if not nodes:
            continue
        if any(pause.group_id == group.id for pause in world.pauses):
            refusals.append("paused")
            continue
        charged = [other for other in held if other.instance_group_id == group.id]
        forks = sum(other.forks for other in charged) + job.forks
        if 0 < group.max_concurrent_jobs <= len(charged) or 0 < group.max_forks < forks:
            refusals.append("group_limit")
            continue
        chosen = _node(held, job, nodes)
        if chosen is not None:
            return Start(job.id, group.id, chosen.id)
        full = all(_jobs(held, node) >= node.max_jobs for node in nodes)
        refusals.append("node_limit" if full else "no_capacity")
    order = ["paused", "group_limit"]
    return max(refusals, key=lambda r: order.index(r) if r in order else len(order))


def _node(held: list[ActiveJob], job: PendingJob, nodes: list[Node]) -> Node | None:
    open_ = [node for node in nodes if _jobs(held, node) < node.max_jobs]
    if all(job.task_impact > node.capacity for node in nodes):
        idle = [node for node in open_ if not _jobs(held, node)]
        return min(idle, key=lambda node: (-node.capacity, node.name), default=None)
    fits = [node for node in open_ if _after(held, job, node) >= 0]
    return min(fits, key=lambda node: (-_after(held, job, node), node.name), default=None)


def _jobs(held: list[ActiveJob], node: Node) -> int:
    return len([other for other in held if other.node_id == node.id])


def _after(held: list[ActiveJob], job: PendingJob, node: Node) -> int:
    used = sum(other.task_impact for other in held if other.node_id == node.id)
    return node.capacity - used - job.task_impact


def _collide(job: PendingJob, other: ActiveJob) -> bool:
    modes = {job.host_lock, other.host_lock}
    return (
        "none" not in modes
        and modes != {"shared"}
        and bool(set(job.lock_keys) & set(other.lock_keys))
    )
