"""Explanations: every blocker in order, the position, the expected start."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings

from dispatcher.domain.status import Kind, Status
from schedulers.core.decision import Block, Hold
from schedulers.core.explain import RunTimes, explain
from schedulers.core.plan_tasks import Ledger, plan_window
from schedulers.core.snapshot import Pause, Tenant
from tests.unit.planner_strategies import backlogs, worlds
from tests.unit.worlds import NOW, active, dependency, group, locked, node, pending, world

TIMES = RunTimes(templates={3: 30.0}, kinds={Kind.PLAYBOOK: 100.0})


def codes(explanation):
    return [blocker.code for blocker in explanation.blockers]


def test_a_job_that_the_next_pass_starts_has_no_blockers():
    found = explain(world([node(1)]), [], pending(1), TIMES)
    assert (found.position, found.blockers, found.expected_start) == (1, (), NOW)


def test_all_blockers_are_told_in_the_order_of_the_questions():
    here = world(
        [node(1, 4), node(2, 4)],
        [group(1, [1]), group(2, [2], max_jobs=1)],
        [
            locked(90, "exclusive", "h1", build=active),
            active(91, 1, 2, kind=Kind.PROJECT_UPDATE, project_id=7),
            active(92, 2, 1, 2, job_template_id=3, allow_simultaneous=False),
        ],
    )
    here = replace(here, tenants=(Tenant(1, "Ops", 1.0, 2),), pauses=(Pause(None, 1, "audit"),))
    job = locked(
        1,
        "exclusive",
        "h1",
        impact=3,
        groups=[1, 2],
        project_id=7,
        job_template_id=3,
        dependencies=(dependency(91, Status.RUNNING),),
    )
    found = explain(here, [job], job, TIMES)
    assert codes(found) == [
        "dependency",
        "paused",
        "project_update",
        "same_template",
        "host_lock",
        "tenant_limit",
        "no_capacity",
        "group_limit",
    ]
    assert found.blockers[1].words == "Organization Ops is paused: audit."
    assert found.expected_start is None


def test_the_position_counts_those_that_stay_pending_before_it():
    here = world([node(1, 4)])
    head = [pending(i, age=9 - i) for i in range(1, 6)]
    assert [explain(here, head, job, TIMES).position for job in head] == [1, 1, 1, 2, 3]


def test_the_expected_start_follows_from_recent_run_times():
    here = world([node(1, 4)], active=[active(90, 1, 4, job_template_id=3)])
    head = [pending(i, 4, age=9 - i) for i in range(1, 4)]
    times = replace(TIMES, started={90: NOW.timestamp() - 10})
    starts = [explain(here, head, job, times).expected_start for job in head]
    assert starts == [NOW + timedelta(seconds=s) for s in (20, 120, 220)]


def test_a_job_that_runs_longer_than_others_did_is_expected_to_end_soon():
    here = world([node(1, 4)], active=[active(90, 1, 4, job_template_id=3)])
    times = replace(TIMES, started={90: NOW.timestamp() - 500})
    found = explain(here, [], pending(1, 4), times)
    assert found.expected_start == NOW + timedelta(seconds=3)


def test_nothing_is_expected_of_a_job_without_a_node():
    found = explain(world([node(1, draining=True)]), [], pending(1), TIMES)
    assert (codes(found), found.expected_start) == (["all_drained"], None)


@settings(max_examples=40, deadline=None)
@given(worlds(), backlogs(old=True))
def test_the_planners_reason_is_always_among_the_blockers(world, jobs):
    decisions, _ = plan_window(Ledger.of(world), jobs)
    by_id = {job.id: job for job in jobs}
    for decision in decisions[:3]:
        found = explain(world, jobs, by_id[decision.job_id], TIMES)
        if isinstance(decision, Block | Hold):
            assert decision.reason.code in codes(found)
        else:
            assert not found.blockers
