"""Which jobs a pending job must wait for: its dependencies, and holders of what it needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import FINAL, Kind, Status
from schedulers.core.capacity import Ledger
from schedulers.core.decision import Block, Fail, Reason
from schedulers.core.exclusions import WORDED
from schedulers.core.holders import NAMED
from schedulers.core.snapshot import Dependency, PendingJob

#: Most host keys named in a reason.
KEYS_NAMED: Final = 3

#: AWX's words for kinds, as its clients read them in explanations.
AWX_TYPES: Final[dict[Kind, str]] = {
    Kind.PLAYBOOK: "job",
    Kind.PROJECT_UPDATE: "project_update",
    Kind.INVENTORY_UPDATE: "inventory_update",
    Kind.CLEANUP: "system_job",
    Kind.WORKFLOW: "workflow_job",
    Kind.APPROVAL: "workflow_approval",
}


def by_dependencies(job: PendingJob) -> Fail | Block | None:
    """What the job's own dependencies decide; None: nothing.

    One that ended in failed, error or canceled fails the job, whatever the others do; else one
    that is not final blocks it.
    """
    if not job.dependencies:
        return None
    ended = [one for one in job.dependencies if one.status in FINAL - {Status.SUCCESSFUL}]
    if ended:
        first = min(ended, key=lambda one: one.job_id)
        return Fail(job.id, Outcome.DEPENDENCY, _explanation(first))
    unfinished = {one.job_id for one in job.dependencies if one.status not in FINAL}
    if unfinished:
        data = {"jobs": named(unfinished), "jobs_total": len(unfinished)}
        return Block(job.id, Reason("dependency", data))
    return None


def _explanation(ended: Dependency) -> str:
    """AWX's form, which its clients parse.

    The dependency's name stays empty: it is added when the explanation is shown, for those who
    may see that job.
    """
    word = "Canceled" if ended.status is Status.CANCELED else "Failed"
    about = {"job_type": AWX_TYPES[ended.kind], "job_name": "", "job_id": str(ended.job_id)}
    return f"Previous Task {word}: {json.dumps(about)}"


def by_jobs(ledger: Ledger, job: PendingJob) -> Iterator[Reason]:
    """What the job has to wait for: jobs beside which it must not run, then holders of its locks."""
    yield from by_exclusions(ledger, job)
    yield from _by_host_locks(ledger, job)


def by_exclusions(ledger: Ledger, job: PendingJob) -> Iterator[Reason]:
    """Each thing that active jobs hold, or waiting ones that must not be overtaken will."""
    place = ledger.turns.place_of(job)
    for (name, which), holders, ahead in ledger.exclusions.conflicts(place, job):
        code, scope = WORDED[name]
        yield Reason(
            code, {scope: str(which) if scope == "kind" else which, **_who(holders, ahead)}
        )


def _by_host_locks(ledger: Ledger, job: PendingJob) -> Iterator[Reason]:
    if job.host_lock == "none":
        return
    place = ledger.turns.place_of(job)
    found = ledger.hosts.conflict(place, job.host_lock, job.lock_keys)
    if found is not None:
        yield Reason(
            "host_lock",
            {
                "jobs": named(found.holders),
                "jobs_total": len(found.holders),
                "ahead": named(found.ahead),
                "cooling": named(found.cooling),
                "keys": sorted(found.keys)[:KEYS_NAMED],
                "keys_total": len(found.keys),
            },
        )


def claim(ledger: Ledger, job: PendingJob) -> None:
    """From now on no job that comes later in the order overtakes this one on what it waits for."""
    place = ledger.turns.claim(job)
    ledger.hosts.claim(place, job.host_lock, job.lock_keys)
    ledger.exclusions.claim(place, job)


def _who(holders: Iterable[int], ahead: Iterable[int]) -> dict[str, object]:
    return {"jobs": named(holders), "ahead": named(ahead)}


def named(job_ids: Iterable[int]) -> list[int]:
    """The first few of these jobs, by id."""
    return sorted(job_ids)[:NAMED]
