"""The TaskManager's rules for young jobs written a second time, slowly: everything is scanned.

It shares no code with the planner but the snapshot's types, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable

from dispatcher.domain.status import Kind, Status
from schedulers.core.decision import Begin, Fail, Start, TaskDecision
from schedulers.core.snapshot import ActiveJob, Group, Node, PendingJob, World

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
        if isinstance(verdict, Start):
            held.append(
                ActiveJob(
                    id=job.id,
                    kind=job.kind,
                    status=Status.WAITING,
                    organization_id=job.organization_id,
                    node_id=verdict.node_id,
                    instance_group_id=verdict.instance_group_id,
                    task_impact=job.task_impact,
                    forks=job.forks,
                    host_lock=job.host_lock,
                    lock_keys=job.lock_keys,
                    created=job.created,
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
    if job.kind is Kind.WORKFLOW:
        return Begin(job.id)
    by_id = {group.id: group for group in world.groups}
    groups = [by_id[g] for g in job.preferred_groups if g in by_id]
    if not any(takers(world, group) for group in groups):
        members = {n for group in groups for n in group.node_ids}
        alive = [n for n in world.nodes if n.id in members and n.state == "alive"]
        return "all_drained" if alive else "no_nodes_online"
    if job.kind is Kind.CLEANUP and any(other.kind is Kind.CLEANUP for other in held):
        return "exclusive_kind"
    if any(_collide(job, other) for other in held):
        return "host_lock"
    return _place(world, held, job, groups)


def _place(world: World, held: list[ActiveJob], job: PendingJob, groups: list[Group]) -> Verdict:
    refusals = []
    for group in groups:
        nodes = takers(world, group)
        if not nodes:
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
    return next((r for r in refusals if r != "group_limit"), "group_limit")


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
