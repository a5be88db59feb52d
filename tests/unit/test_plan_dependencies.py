"""DependencyManager's decisions while nothing can be updated."""

from __future__ import annotations

from dispatcher.domain.status import Kind
from schedulers.core.decision import LinkDependencies
from schedulers.core.plan_dependencies import plan_dependencies
from schedulers.core.snapshot import UnprocessedJob


def test_each_job_of_a_batch_is_linked_once_with_its_own_dependencies_only():
    batch = [UnprocessedJob(id, Kind.PLAYBOOK) for id in (3, 1, 2)]
    assert plan_dependencies(batch) == [LinkDependencies(id, ()) for id in (1, 2, 3)]


def test_an_empty_batch_decides_nothing():
    assert plan_dependencies([]) == []
