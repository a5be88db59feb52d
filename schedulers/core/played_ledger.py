"""A ledger that goes on from pass to pass while a cluster is played forward.

A pass of a live cluster makes its ledger anew of everything that is active, because the database is
the truth. A simulation knows what has ended between two passes and gives back just that, so that a pass
costs what has changed and not what runs. A test holds the two to each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from schedulers.core.capacity import GroupAccount, Ledger
from schedulers.core.exclusions import holds
from schedulers.core.holders import Holders
from schedulers.core.snapshot import ActiveJob, World


class PlayedLedger:
    """The ledger of the next pass, and the jobs that are active."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._active = {job.id: job for job in world.active}
        self._special = {job.id: job for job in world.active if _is_special(job)}
        self._begun: list[ActiveJob] = []
        self._ledger = Ledger.of(world)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._active

    def add(self, job: ActiveJob) -> None:
        """The job has started; the planner has entered it already."""
        self._active[job.id] = job
        if job.node_id is None:  # a pass charges its tenant only with jobs that it gives a node
            self._begun.append(job)
        if _is_special(job):
            self._special[job.id] = job

    def begin_pass(self, now: float, ended: Iterable[int]) -> Ledger:
        """The ledger at the beginning of a pass.

        Args:
            now: seconds since 1970.
            ended: active jobs that have ended since the last one.
        """
        ledger = self._ledger
        ledger.now = now
        ledger.starts, ledger.stopped_early = 0, False
        ledger.kept.clear()
        ledger.turns.claimed.clear()
        ledger.turns.last = ()
        for limited in (*ledger.limits.tenants.values(), *ledger.limits.templates.values()):
            limited.kept = None
        for job in self._begun:
            ledger.turns.charge(job, job.task_impact)
        self._begun.clear()
        for job_id in ended:
            self._release(self._active.pop(job_id))
            self._special.pop(job_id, None)
        # few jobs have locks, or keep others from running beside them: those are entered anew
        moment = datetime.fromtimestamp(now, UTC)
        special = Ledger.of(
            replace(
                self._world, now=moment, nodes=(), groups=(), active=tuple(self._special.values())
            )
        )
        ledger.hosts, ledger.exclusions = special.hosts, special.exclusions
        for group in ledger.groups.values():
            _renew(ledger, group)
        return ledger

    def end_pass(self, ledger: Ledger) -> None:
        """What the pass has left of it."""
        self._ledger = ledger

    def _release(self, job: ActiveJob) -> None:
        ledger = self._ledger
        node = None if job.node_id is None else ledger.nodes.get(job.node_id)
        if node is not None:
            node.remaining += job.task_impact
            node.jobs -= 1
            for member_of in ledger.groups_of.get(node.id, ()):
                _drop(ledger.groups[member_of].on_nodes, job.id)
        group = None if job.instance_group_id is None else ledger.groups.get(job.instance_group_id)
        if group is not None:
            group.jobs -= 1
            group.forks -= job.forks
            _drop(group.charged, job.id)
        ledger.turns.charge(job, -job.task_impact)
        ledger.limits.release(job)


def _is_special(job: ActiveJob) -> bool:
    return job.host_lock != "none" or bool(holds(job))


def _drop(holders: Holders, job_id: int) -> None:
    """The names of holders are for reasons alone, and a simulation gives none: a count is enough."""
    holders.total -= 1
    holders.largest = [entry for entry in holders.largest if entry[1] != job_id]


def _renew(ledger: Ledger, group: GroupAccount) -> None:
    """What a pass has kept is free again, and full nodes may have room again."""
    group.reservation = None
    group.lacking.clear()
    takers = [ledger.nodes[node_id] for node_id in group.takers]
    group.heap = sorted(node.entry() for node in takers)
    largest_first = sorted(takers, key=lambda node: node.capacity, reverse=True)
    group.idle = [node.id for node in reversed(largest_first) if node.jobs == 0]
