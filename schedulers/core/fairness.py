"""In which order pending jobs are looked at: tenants take turns, each in its own order.

The turn is the tenant's whose *virtual time* is least: the impact that it has running and had lately,
divided by its weight. Only a start moves it, so jobs that cannot run cost their tenant nothing.

A job is charged with what was created before it or in the same minute, not with later jobs of its
tenant that have overtaken it: else a large job of a busy tenant would never be first. Nor does a
high priority make a job of a busy tenant cheaper, because creation and not rank counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from schedulers.core.snapshot import ActiveJob, PendingJob, Tenant, World

#: Seconds of creation that are charged as one.
MINUTE: Final = 60
#: Impact is counted in whole thousandths, so that sums do not depend on the order of rows.
UNIT: Final = 1000

#: A job's place among all tenants' jobs: rank, how often it was put behind another tenant's job
#: that had its turn first, rank again, id.
Place = tuple[float, int, float, int]


def own_order(job: PendingJob) -> tuple[float, int]:
    """The order within a tenant: rank (creation less priority), then id."""
    return (job.rank, job.id)


@dataclass(slots=True)
class TenantAccount:
    """What a tenant has in use, by the minute in which its jobs were created."""

    weight: float = 1.0
    used: int = 0
    newest: float = 0
    by_minute: dict[float, int] = field(default_factory=dict)
    _until: dict[float, int] = field(default_factory=dict)

    def charge(self, created: float, amount: int) -> None:
        """So much more of what was created then; the amount in thousandths of impact."""
        minute = created // MINUTE
        self._until.clear()
        self.used += amount
        if minute > self.newest:
            self.newest = minute
        self.by_minute[minute] = self.by_minute.get(minute, 0) + amount

    def virtual_time(self, created: float) -> float:
        """Of a job created then."""
        minute = created // MINUTE
        used = self.used
        if minute < self.newest:
            used = self._used_until(minute)
        return used / self.weight

    def _used_until(self, minute: float) -> int:
        # many jobs of one minute are asked about between two starts
        used = self._until.get(minute)
        if used is None:
            used = sum(amount for m, amount in self.by_minute.items() if m <= minute)
            self._until[minute] = used
        return used

    def copy(self) -> TenantAccount:
        """An independent copy."""
        return TenantAccount(self.weight, self.used, self.newest, self.by_minute.copy())


@dataclass(slots=True)
class Turns:
    """Whose turn it is, and the places of the jobs that are not to be overtaken any more.

    Attributes:
        accounts: by tenant; a tenant that is not known has weight 1.
        claimed: the place of each job that has kept its turn.
        last: the latest place that was kept, and the latest one of any other tenant.
    """

    accounts: dict[int, TenantAccount] = field(default_factory=dict)
    claimed: dict[int, Place] = field(default_factory=dict)
    last: tuple[tuple[Place, int], ...] = ()

    @classmethod
    def of(cls, world: World) -> Turns:
        """At the beginning of a pass: what every tenant has running and had lately."""
        turns = cls({tenant.id: _account(tenant) for tenant in world.tenants})
        for usage in world.recent:
            lately = round(usage.impact * UNIT)
            turns._account(usage.organization_id).charge(usage.created, lately)
        return turns

    def charge(self, job: ActiveJob | PendingJob, impact: int) -> None:
        """The tenant of the job uses so much more."""
        self._account(job.organization_id).charge(job.created, impact * UNIT)

    def in_turn(self, pending: Iterable[PendingJob]) -> Iterator[PendingJob]:
        """The jobs in the order in which they are decided; to be charged while it goes on.

        Of equal virtual times the first in rank and id is next, whatever its tenant.
        """
        queues: dict[int, list[PendingJob]] = defaultdict(list)
        for job in pending:
            queues[job.organization_id].append(job)
        for queue in queues.values():
            queue.sort(key=own_order, reverse=True)
        heads = [self._head(queue[-1]) for queue in queues.values()]
        heapify(heads)
        while heads:
            queue = queues[heappop(heads)[-1]]
            yield queue.pop()
            while queue and not heads:  # nobody else is left
                yield queue.pop()
            if queue:
                heappush(heads, self._head(queue[-1]))

    def place_of(self, job: PendingJob) -> Place:
        """The job's place: by rank, but behind other tenants' jobs that kept their turn before it."""
        kept = self.claimed.get(job.id)
        if kept is not None:
            return kept
        place = (job.rank, 0, job.rank, job.id)
        before = next((p for p, tenant in self.last if tenant != job.organization_id), place)
        return (before[0], before[1] + 1, job.rank, job.id) if place < before else place

    def claim(self, job: PendingJob) -> Place:
        """Nothing that is decided later takes this job's place."""
        place = self.claimed[job.id] = self.place_of(job)
        others = [entry for entry in self.last if entry[1] != job.organization_id]
        own = [entry for entry in self.last if entry[1] == job.organization_id]
        latest = max([(place, job.organization_id), *own])
        self.last = tuple(sorted([latest, *others], reverse=True)[:2])
        return place

    def copy(self) -> Turns:
        """An independent copy."""
        accounts = {tenant: account.copy() for tenant, account in self.accounts.items()}
        return Turns(accounts, self.claimed.copy(), self.last)

    def _head(self, job: PendingJob) -> tuple[float, float, int, int]:
        time = self._account(job.organization_id).virtual_time(job.created)
        return (time, job.rank, job.id, job.organization_id)

    def _account(self, tenant: int) -> TenantAccount:
        if tenant not in self.accounts:
            self.accounts[tenant] = TenantAccount()
        return self.accounts[tenant]


def _account(tenant: Tenant) -> TenantAccount:
    return TenantAccount(tenant.weight)
