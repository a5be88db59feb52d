"""Decides which updates each unprocessed job must wait for: exactly its own."""

from __future__ import annotations

from collections.abc import Sequence

from schedulers.core.decision import LinkDependencies
from schedulers.core.snapshot import UnprocessedJob


def plan_dependencies(jobs: Sequence[UnprocessedJob]) -> list[LinkDependencies]:
    """One decision for each job, in order of id.

    A job's dependencies are computed from that job alone and never collected over the batch
    (AWX issues 14324, 15559, 15610: jobs blocked by themselves, or failed by strangers' updates).
    There is nothing yet that a job could update, so each list is empty.
    """
    return [LinkDependencies(job.id) for job in sorted(jobs, key=lambda job: job.id)]
