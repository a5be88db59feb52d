"""In which order pending jobs are looked at."""

from __future__ import annotations

from collections.abc import Iterable

from schedulers.core.snapshot import PendingJob

Place = tuple[float, int]


def place_of(job: PendingJob) -> Place:
    """A job's place in the order: rank (creation less priority), then id."""
    return (job.rank, job.id)


def in_order(pending: Iterable[PendingJob]) -> list[PendingJob]:
    """The jobs of one window in the order in which they are decided.

    All tenants share one order for now. Turns by weighted fair share belong here: a merge of one
    ordered list per tenant by what each of them has running and has been given in this pass.
    """
    return sorted(pending, key=place_of)
