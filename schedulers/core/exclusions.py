"""Which jobs do not run beside each other, whatever hosts they work on: one rule a row.

A job *waits for* things and *holds* things while it is active. It may start when nobody holds what it
waits for. A playbook waits for its project and does not hold it, so it never blocks an update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dispatcher.domain.status import Kind
from schedulers.core.fairness import Place
from schedulers.core.snapshot import ActiveJob, PendingJob

#: What is held, and which one.
Thing = tuple[str, int | str]
#: The same, where there may be none.
Things = tuple[tuple[str, int | str | None], ...]
Job = ActiveJob | PendingJob

#: What is held → the reason's code and the name of the thing in its data.
WORDED: Final[dict[str, tuple[str, str]]] = {
    "project": ("project_update", "project"),
    "source": ("source_update", "source"),
    "inventory": ("inventory_update", "inventory"),
    "template": ("same_template", "template"),
    "slices of template": ("same_template", "template"),
    "workflow template": ("same_workflow_template", "workflow_template"),
    "kind": ("exclusive_kind", "kind"),
}


#: What a job waits for, in the order in which it is told.
_WAITS: Final[Mapping[Kind, Callable[[PendingJob], Things]]] = {
    Kind.PROJECT_UPDATE: lambda job: (("project", job.project_id),),
    Kind.INVENTORY_UPDATE: lambda job: (("source", job.inventory_source_id),),
    Kind.PLAYBOOK: lambda job: (
        ("project", job.project_id),
        ("inventory", job.inventory_id),
        ("template", job.job_template_id),
    ),
    Kind.WORKFLOW: lambda job: (
        ("workflow template", job.workflow_job_template_id),
        ("slices of template", job.job_template_id),
    ),
    Kind.CLEANUP: lambda job: (("kind", Kind.CLEANUP),),
}

#: What a job holds; ``alone``: it runs beside no other of its template.
_HOLDS: Final[Mapping[Kind, Callable[[Job, bool], Things]]] = {
    Kind.PROJECT_UPDATE: lambda job, alone: (("project", job.project_id),),
    Kind.INVENTORY_UPDATE: lambda job, alone: (
        ("source", job.inventory_source_id),
        ("inventory", job.inventory_id),
    ),
    # not one thing of none: ten thousand may run
    Kind.PLAYBOOK: lambda job, alone: (("template", job.job_template_id),) if alone else (),
    Kind.WORKFLOW: lambda job, alone: (
        ("workflow template", job.workflow_job_template_id if alone else None),
        ("slices of template", job.job_template_id if alone else None),
    ),
    Kind.CLEANUP: lambda job, alone: (("kind", Kind.CLEANUP),),
}


def waits_for(job: PendingJob) -> tuple[Thing, ...]:
    """The things that nobody may hold when the job starts, in the order in which they are told."""
    rule = _WAITS.get(job.kind)
    return () if rule is None else _those_that_are(rule(job))


def holds(job: Job) -> tuple[Thing, ...]:
    """The things that the job holds while it waits on a node or runs."""
    rule = _HOLDS.get(job.kind)
    return () if rule is None else _those_that_are(rule(job, not job.allow_simultaneous))


def _those_that_are(things: Things) -> tuple[Thing, ...]:
    return tuple([(name, which) for name, which in things if which is not None]) if things else ()


@dataclass(slots=True)
class Exclusions:
    """Who holds what, and which waiting job is not to be overtaken by later holders of a thing."""

    holders: dict[Thing, frozenset[int]] = field(default_factory=dict)
    claims: dict[Thing, Place] = field(default_factory=dict)

    def hold(self, job: Job) -> None:
        """The job holds its things from now on."""
        for thing in holds(job):
            self.holders[thing] = self.holders.get(thing, frozenset()) | {job.id}

    def claim(self, place: Place, job: PendingJob) -> None:
        """The waiting job at this place is not overtaken by later ones that would hold its things."""
        for thing in waits_for(job):
            self.claims[thing] = min(place, self.claims.get(thing, place))

    def conflicts(
        self, place: Place, job: PendingJob
    ) -> Iterator[tuple[Thing, frozenset[int], list[int]]]:
        """Each thing that keeps the job from starting: who holds it, and who comes first for it."""
        wanted, taken = waits_for(job), holds(job)
        if not self.claims and not any(thing in self.holders for thing in wanted):
            return
        for thing in (*wanted, *(thing for thing in taken if thing not in wanted)):
            holders = self.holders.get(thing, frozenset()) if thing in wanted else frozenset()
            claim = self.claims.get(thing, place) if thing in taken else place
            if holders or claim < place:
                yield thing, holders, [claim[-1]] if claim < place else []

    def copy(self) -> Exclusions:
        """An independent copy."""
        return Exclusions(self.holders.copy(), self.claims.copy())
