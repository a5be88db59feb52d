"""Decides which updates each unprocessed job must wait for: exactly its own.

The rules are those of docs/scheduling.md 2. A job's dependencies are computed from that job alone
and never collected over the batch (AWX issues 14324, 15559, 15610: jobs blocked by themselves, or
failed by strangers' updates).
"""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.domain.status import Kind, Status
from schedulers.core.decision import (
    LinkDependencies,
    NewInventoryUpdate,
    NewProjectUpdate,
    NewUpdate,
)
from schedulers.core.snapshot import UnprocessedJob, Updates, UpdateWorld

_NONE = Updates()


def plan_dependencies(jobs: Sequence[UnprocessedJob], world: UpdateWorld) -> list[LinkDependencies]:
    """One decision for each job, in order of id. Linear in the number of jobs."""
    return [_decide(job, world) for job in sorted(jobs, key=lambda job: job.id)]


def _decide(job: UnprocessedJob, world: UpdateWorld) -> LinkDependencies:
    needs: list[int | NewUpdate | None] = []
    if job.kind is Kind.PLAYBOOK:
        needs.append(_project_need(job.project_id, job.branch, world))
        needs += [
            _source_need(each, world) for each in world.sources_of.get(job.inventory_id or 0, ())
        ]
    elif job.kind is Kind.INVENTORY_UPDATE:
        needs.append(_project_need(job.project_id, job.branch, world))
    there = sorted({need for need in needs if isinstance(need, int) and need != job.id})
    new = [need for need in needs if need is not None and not isinstance(need, int)]
    return LinkDependencies(job.id, tuple(there), tuple(dict.fromkeys(new)))


def _project_need(
    project_id: int | None, branch: str, world: UpdateWorld
) -> int | NewProjectUpdate | None:
    """What a job that runs from a project waits for; None: nothing.

    A project that is not updated on launch is fetched once for each branch: without any content
    there is nothing to run.
    """
    rule = None if project_id is None else world.projects.get(project_id)
    if rule is None or project_id is None:
        return None
    updates = world.project_updates.get((project_id, branch), _NONE)
    if not rule.update_on_launch and updates.ever:
        return None
    if updates.ever and is_fresh(updates, rule.cache_timeout):
        return None
    return updates.active or NewProjectUpdate(project_id, branch)


def _source_need(source_id: int, world: UpdateWorld) -> int | NewInventoryUpdate | None:
    rule = world.sources[source_id]
    if not rule.update_on_launch:
        return None
    updates = world.source_updates.get(source_id, _NONE)
    if is_fresh(updates, rule.cache_timeout):
        return None
    after = _project_need(rule.project_id, rule.branch, world)
    return updates.active or NewInventoryUpdate(source_id, after)


def is_fresh(updates: Updates, cache_timeout: float) -> bool:
    """Whether the last update still counts: it was successful, nothing newer is under way, and it
    finished no longer ago than the cache time-out.
    """
    return (
        updates.active is None
        and updates.last_status is Status.SUCCESSFUL
        and updates.last_age is not None
        and updates.last_age <= cache_timeout
    )
