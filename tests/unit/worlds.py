"""Small worlds for the planners' tests: every builder names only what the test is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from dispatcher.domain.status import Kind, Status
from schedulers.core.decision import Reason, Start, TaskDecision
from schedulers.core.plan_tasks import Ledger, plan_window
from schedulers.core.snapshot import ActiveJob, Dependency, Group, Node, PendingJob, World

#: The moment at which every world stands, by the database's clock.
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
YOUNG = NOW.timestamp() - 1
OLD = NOW.timestamp() - 3600


def node(id: int, capacity: int = 10, **fields: Any) -> Node:
    """A node named ``n<id>`` that takes jobs unless told otherwise."""
    values: dict[str, Any] = {
        "name": f"n{id}",
        "max_jobs": 100,
        "state": "alive",
        "enabled": True,
        "draining": False,
        "accepting": True,
    }
    return Node(id=id, capacity=capacity, **(values | fields))


def group(
    id: int, nodes: Iterable[int], *, name: str = "", max_jobs: int = 0, max_forks: int = 0
) -> Group:
    """An instance group named ``g<id>``."""
    return Group(id, name or f"g{id}", max_jobs, max_forks, tuple(nodes))


def pending(
    id: int, impact: int = 2, groups: Sequence[int] = (1,), *, age: float = 1, **fields: Any
) -> PendingJob:
    """A pending playbook job, ``age`` seconds old and held since; equal ages go by id."""
    values: dict[str, Any] = {
        "kind": Kind.PLAYBOOK,
        "name": f"job {id}",
        "organization_id": 1,
        "rank": NOW.timestamp() - age,
        "held_since": NOW.timestamp() - age,
        "forks": 5,
    }
    return PendingJob(
        id=id, task_impact=impact, preferred_groups=tuple(groups), **(values | fields)
    )


def active(
    id: int, node: int | None = 1, impact: int = 2, group: int | None = 1, **fields: Any
) -> ActiveJob:
    """A running playbook job."""
    values: dict[str, Any] = {
        "organization_id": 1,
        "forks": 5,
        "created": 0.0,
        "job_template_id": None,
    }
    return ActiveJob(
        id=id, node_id=node, instance_group_id=group, task_impact=impact, **(values | fields)
    )


def locked(id: int, mode: str, *keys: str, build: Any = pending, **fields: Any) -> Any:
    """A job with a host lock, pending unless built otherwise."""
    return build(id, host_lock=mode, lock_keys=keys, **fields)


def dependency(job_id: int, status: Status, kind: Kind = Kind.PROJECT_UPDATE) -> Dependency:
    """A project update that a job waits for."""
    return Dependency(job_id, kind, f"job {job_id}", status)


def world(
    nodes: Iterable[Node], groups: Iterable[Group] = (), active: Iterable[ActiveJob] = ()
) -> World:
    """A world; without groups there is one, ``g1``, with all the nodes."""
    members = tuple(nodes)
    return World(
        now=NOW,
        nodes=members,
        groups=tuple(groups) or (group(1, (n.id for n in members)),),
        active=tuple(active),
    )


def plan(world: World, *jobs: PendingJob, start_limit: int = 0) -> dict[int, TaskDecision]:
    """Every decision of one window, by job id."""
    decisions, _ = plan_window(Ledger.of(world), jobs, start_limit)
    assert len(decisions) == len(jobs)
    return {decision.job_id: decision for decision in decisions}


def places(decisions: dict[int, TaskDecision]) -> dict[int, int]:
    """Job id → node id of the starts."""
    return {d.job_id: d.node_id for d in decisions.values() if isinstance(d, Start)}


def reason_of(decision: TaskDecision) -> Reason:
    """The reason of a block or a hold."""
    reason = getattr(decision, "reason", None)
    assert isinstance(reason, Reason), decision
    return reason
