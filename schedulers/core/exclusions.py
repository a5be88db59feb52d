"""Which jobs do not run beside each other, whatever hosts they work on: one rule a row.

A job *waits for* things and *holds* things while it is active. It may start when nobody holds what it
waits for. A playbook waits for its project and does not hold it, so it never blocks an update.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from dispatcher.domain.status import Kind
from schedulers.core.fairness import Place
from schedulers.core.snapshot import ActiveJob, PendingJob

#: What is held, and which one.
Thing = tuple[str, int | str]

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


def waits_for(job: PendingJob) -> tuple[Thing, ...]:
    """The things that nobody may hold when the job starts, in the order in which they are told."""
    rules: dict[Kind, tuple[tuple[str, int | str | None], ...]] = {
        Kind.PROJECT_UPDATE: (("project", job.project_id),),
        Kind.INVENTORY_UPDATE: (("source", job.inventory_source_id),),
        Kind.PLAYBOOK: (
            ("project", job.project_id),
            ("inventory", job.inventory_id),
            ("template", job.job_template_id),
        ),
        Kind.WORKFLOW: (
            ("workflow template", job.workflow_job_template_id),
            ("slices of template", job.job_template_id),
        ),
        Kind.CLEANUP: (("kind", Kind.CLEANUP),),
    }
    return tuple((name, which) for name, which in rules.get(job.kind, ()) if which is not None)


def holds(job: ActiveJob | PendingJob) -> tuple[Thing, ...]:
    """The things that the job holds while it waits on a node or runs."""
    alone = not job.allow_simultaneous
    rules: dict[Kind, tuple[tuple[str, int | str | None], ...]] = {
        Kind.PROJECT_UPDATE: (("project", job.project_id),),
        Kind.INVENTORY_UPDATE: (
            ("source", job.inventory_source_id),
            ("inventory", job.inventory_id),
        ),
        Kind.PLAYBOOK: (("template", job.job_template_id if alone else None),),
        Kind.WORKFLOW: (
            ("workflow template", job.workflow_job_template_id if alone else None),
            ("slices of template", job.job_template_id if alone else None),
        ),
        Kind.CLEANUP: (("kind", Kind.CLEANUP),),
    }
    return tuple((name, which) for name, which in rules.get(job.kind, ()) if which is not None)


@dataclass(slots=True)
class Exclusions:
    """Who holds what, and which waiting job is not to be overtaken by later holders of a thing."""

    holders: dict[Thing, frozenset[int]] = field(default_factory=dict)
    claims: dict[Thing, Place] = field(default_factory=dict)

    def hold(self, job: ActiveJob | PendingJob) -> None:
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
        for thing in (*wanted, *(thing for thing in taken if thing not in wanted)):
            holders = self.holders.get(thing, frozenset()) if thing in wanted else frozenset()
            claim = self.claims.get(thing, place) if thing in taken else place
            if holders or claim < place:
                yield thing, holders, [claim[-1]] if claim < place else []

    def copy(self) -> Exclusions:
        """An independent copy."""
        return Exclusions(self.holders.copy(), self.claims.copy())
