"""Limits that do not depend on where a job runs: of its tenant, of its template; and pauses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from dispatcher.domain.status import NODE_KINDS, Kind
from schedulers.core.decision import Reason
from schedulers.core.fairness import Place
from schedulers.core.holders import Holders
from schedulers.core.snapshot import ActiveJob, Pause, PendingJob, World


@dataclass(slots=True)
class LimitAccount:
    """How many jobs may run at once, and how many do.

    Attributes:
        head: of the reason: its code, what the limit belongs to, and its name or id.
        kept: the place of the first waiting job for which one is kept.
    """

    head: tuple[str, str, str | int]
    allowed: int
    charged: Holders = field(default_factory=Holders)
    kept: Place | None = None

    def refuses(self, place: Place) -> Reason | None:
        """Why the job at this place may not start; None: it may."""
        kept = self.kept if self.kept is not None and self.kept < place else None
        used = self.charged.total
        if used + (kept is not None) < self.allowed:
            return None
        code, scope, name = self.head
        data = {scope: name, "allowed": self.allowed, "used": used}
        return Reason(code, data | self.charged.named(None if kept is None else kept[-1]))


@dataclass(slots=True)
class Limits:
    """The limits of tenants and templates that have one."""

    tenants: dict[int, LimitAccount] = field(default_factory=dict)
    templates: dict[int, LimitAccount] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World) -> Limits:
        """Nothing is charged yet."""
        return cls(
            {
                tenant.id: LimitAccount(
                    ("tenant_limit", "tenant", tenant.name), tenant.max_concurrent_jobs
                )
                for tenant in world.tenants
                if tenant.max_concurrent_jobs
            },
            {
                template: LimitAccount(("template_limit", "template", template), allowed)
                for template, allowed in world.template_limits
                if allowed
            },
        )

    def charge(self, job: ActiveJob | PendingJob) -> None:
        """The job counts from now on."""
        for account in self._accounts(job):
            account.charged.add(job.id, 1)

    def release(self, job: ActiveJob) -> None:
        """The job counts no longer."""
        for account in self._accounts(job):
            account.charged.total -= 1

    def refusals(self, place: Place, job: PendingJob) -> Iterator[Reason]:
        """Why the job may not start."""
        for account in self._accounts(job):
            refused = account.refuses(place)
            if refused is not None:
                yield refused

    def keep(self, place: Place, job: PendingJob) -> None:
        """One of each of the job's limits is kept for it, if it is the first in order."""
        for account in self._accounts(job):
            if account.kept is None:
                account.kept = place

    def copy(self) -> Limits:
        """An independent copy."""

        def copies(accounts: dict[int, LimitAccount]) -> dict[int, LimitAccount]:
            return {id: replace(a, charged=a.charged.copy()) for id, a in accounts.items()}

        return Limits(copies(self.tenants), copies(self.templates))

    def _accounts(self, job: ActiveJob | PendingJob) -> list[LimitAccount]:
        """Workflow jobs count nowhere: they would keep their own children from starting."""
        found = []
        if job.organization_id in self.tenants and job.kind in NODE_KINDS:
            found.append(self.tenants[job.organization_id])
        if job.job_template_id in self.templates and job.kind is Kind.PLAYBOOK:
            found.append(self.templates[job.job_template_id])
        return found


@dataclass(slots=True)
class Pauses:
    """The pause switches: the whole, tenants, groups."""

    whole: Pause | None = None
    tenants: dict[int, Pause] = field(default_factory=dict)
    groups: dict[int, Pause] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World) -> Pauses:
        """As they stand in this pass."""
        return cls(
            whole=next(_whole(world.pauses), None),
            tenants={p.organization_id: p for p in world.pauses if p.organization_id is not None},
            groups={p.group_id: p for p in world.pauses if p.group_id is not None},
            names={tenant.id: tenant.name for tenant in world.tenants},
        )

    def of_job(self, job: PendingJob) -> Reason | None:
        """Why nothing like this job starts, wherever; None: nothing is switched off for it."""
        if self.whole is not None:
            return _paused("all", "", self.whole)
        paused = self.tenants.get(job.organization_id)
        if paused is None:
            return None
        name = self.names.get(job.organization_id, str(job.organization_id))
        return _paused("tenant", name, paused)

    def of_group(self, id: int, name: str) -> Reason | None:
        """Why nothing starts through the group."""
        paused = self.groups.get(id)
        return None if paused is None else _paused("group", name, paused)


def _whole(pauses: Iterable[Pause]) -> Iterator[Pause]:
    return (p for p in pauses if p.group_id is None and p.organization_id is None)


def _paused(scope: str, name: str, pause: Pause) -> Reason:
    return Reason("paused", {"scope": scope, "name": name, "why": pause.reason})
