"""Jobs that do not run beside each other, limits of tenants and templates, pauses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from dispatcher.domain.status import Kind
from schedulers.core.decision import Begin, Block, Hold, Start
from schedulers.core.plan_tasks import Ledger, plan_window
from schedulers.core.snapshot import ActiveJob, Pause, Tenant, World
from tests.unit.worlds import active, group, node, pending, places, plan, reason_of, world

PROJECT = {"kind": Kind.PROJECT_UPDATE, "project_id": 7}
SOURCE = {"kind": Kind.INVENTORY_UPDATE, "inventory_source_id": 5, "inventory_id": 6}
ALONE = {"job_template_id": 3, "allow_simultaneous": False}
WORKFLOW = {"kind": Kind.WORKFLOW, "workflow_job_template_id": 4, "allow_simultaneous": False}
SLICED = {"kind": Kind.WORKFLOW} | ALONE
CLEANUP = {"kind": Kind.CLEANUP}


def beside(running: dict[str, Any], **fields: Any) -> Any:
    """The decision about a job beside a running one."""
    where = {"node": None, "group": None} if running.get("kind") is Kind.WORKFLOW else {}
    return plan(room([active(90, **where, **running)]), pending(1, **fields))[1]


def room(jobs: Iterable[ActiveJob] = (), **fields: Any) -> World:
    return replace(world([node(1, 1000)], active=jobs), **fields)


@pytest.mark.parametrize(
    ("running", "job", "code"),
    [
        (PROJECT, PROJECT, "project_update"),
        (PROJECT, {"project_id": 7}, "project_update"),
        (SOURCE, SOURCE, "source_update"),
        (SOURCE, {"inventory_id": 6}, "inventory_update"),
        (ALONE, ALONE, "same_template"),
        (ALONE, {"job_template_id": 3}, "same_template"),
        (WORKFLOW, WORKFLOW, "same_workflow_template"),
        (SLICED, SLICED, "same_template"),
        (CLEANUP, CLEANUP, "exclusive_kind"),
    ],
)
def test_an_active_job_blocks(running, job, code):
    decision = beside(running, **job)
    assert isinstance(decision, Block)
    assert (decision.reason.code, decision.reason.data["jobs"]) == (code, [90])


@pytest.mark.parametrize(
    ("running", "job"),
    [
        ({"project_id": 7}, PROJECT),
        (PROJECT, PROJECT | {"project_id": 8}),
        (PROJECT, {"project_id": 8}),
        (PROJECT, SOURCE | {"project_id": 7}),
        ({"inventory_id": 6}, SOURCE),
        (SOURCE, SOURCE | {"inventory_source_id": 9}),
        (SOURCE, {"inventory_id": 5}),
        (ALONE | {"allow_simultaneous": True}, ALONE),
        (ALONE, ALONE | {"job_template_id": 4}),
        (ALONE, {}),
        (SLICED, {"job_template_id": 3}),
        (CLEANUP, {}),
    ],
)
def test_an_active_job_does_not_block(running, job):
    assert isinstance(beside(running, **job), Start)


def test_workflows_of_one_template_that_may_run_beside_each_other_do():
    assert isinstance(beside(WORKFLOW | {"allow_simultaneous": True}, **WORKFLOW), Begin)
    assert isinstance(beside(WORKFLOW, **WORKFLOW | {"workflow_job_template_id": 5}), Begin)


@pytest.mark.parametrize("rule", [PROJECT, SOURCE, ALONE, WORKFLOW, SLICED, CLEANUP])
def test_of_two_that_exclude_each_other_the_first_in_order_starts(rule):
    decided = plan(room(), pending(1, age=5, **rule), pending(2, age=9, **rule))
    assert isinstance(decided[2], Start | Begin)
    assert reason_of(decided[1]).data["jobs"] == [2]


def test_an_old_playbook_that_lacks_room_is_not_overtaken_by_updates_of_its_project():
    here = world([node(1, 5), node(2, 1)], active=[active(90, 1, 3)])
    jobs = [pending(1, 4, age=60, project_id=7), pending(2, 1, **PROJECT)]
    decided = plan(here, *jobs, pending(3, 1, project_id=7))
    assert places(decided) == {3: 2}
    assert reason_of(decided[2]).data == {"project": 7, "jobs": [], "ahead": [1]}
    young = plan(here, jobs[0]._replace(held_since=jobs[0].held_since + 1), jobs[1])
    assert places(young) == {2: 1}


# -- limits


def limited(most: int, jobs: Iterable[ActiveJob] = ()) -> World:
    return room(jobs, tenants=(Tenant(1, "Ops", 1.0, most),))


def test_a_tenant_runs_as_many_jobs_as_its_limit_allows():
    decided = plan(limited(2, [active(90)]), *(pending(i) for i in (1, 2)), of_other(3))
    assert places(decided) == {1: 1, 3: 1}
    data = {"tenant": "Ops", "allowed": 2, "used": 2, "jobs": [1, 90], "jobs_total": 2}
    assert reason_of(decided[2]).code == "tenant_limit"
    assert reason_of(decided[2]).data == data | {"reserved_for": None}


def of_other(id: int) -> Any:
    return pending(id, organization_id=2)


def test_workflow_jobs_count_for_no_tenant_and_wait_for_no_limit():
    workflow = active(90, None, 0, None, kind=Kind.WORKFLOW)
    decided = plan(limited(1, [workflow]), pending(1), pending(2, kind=Kind.WORKFLOW))
    assert isinstance(decided[1], Start)
    assert isinstance(decided[2], Begin)


def test_a_template_runs_as_many_jobs_as_its_limit_allows():
    here = room([active(90, job_template_id=3)], template_limits=((3, 2), (4, 1)))
    jobs = [pending(i, job_template_id=t) for i, t in ((1, 3), (2, 3), (3, 4), (4, None))]
    decided = plan(here, *jobs)
    assert sorted(places(decided)) == [1, 3, 4]
    assert reason_of(decided[2]).code == "template_limit"
    assert reason_of(decided[2]).data["jobs"] == [1, 90]


def test_an_old_job_without_room_keeps_its_place_in_the_limits_of_tenant_and_template():
    for here in (
        limited(2, [active(90, 1, 3)]),
        room([active(90, 1, 3, job_template_id=3)], template_limits=((3, 2),)),
    ):
        here = replace(here, nodes=(node(1, 5), node(2, 3)), groups=(group(1, [1, 2]),))
        later = pending(2, 1, job_template_id=3)
        assert places(plan(here, pending(1, 4, age=59, job_template_id=3), later)) == {2: 2}
        old = plan(here, pending(1, 4, age=60, job_template_id=3), later)
        assert places(old) == {}
        assert reason_of(old[2]).data["reserved_for"] == 1
        earlier = pending(3, 1, age=99, job_template_id=3)
        _, ledger = plan_window(Ledger.of(here), [pending(1, 4, age=60, job_template_id=3)])
        assert isinstance(plan_window(ledger, [earlier])[0][0], Start)


def test_an_old_job_at_the_limit_of_its_tenant_keeps_no_node_idle():
    # the other tenant has more in use, so that its job is decided about later
    here = limited(1, [active(90), active(91, 1, 3, organization_id=2)])
    here = replace(here, nodes=(node(1, 10),))
    decided = plan(here, pending(1, 9, age=60), of_other(2))
    assert places(decided) == {2: 1}


# -- pauses


@pytest.mark.parametrize("job", [{}, PROJECT, WORKFLOW])
@pytest.mark.parametrize(
    ("pause", "scope", "name"),
    [(Pause(reason="upgrade"), "all", ""), (Pause(None, 1, "upgrade"), "tenant", "Ops")],
)
def test_nothing_starts_while_all_or_its_tenant_is_paused(job, pause, scope, name):
    here = replace(limited(0), pauses=(pause,))
    decision = plan(here, pending(1, **job))[1]
    assert isinstance(decision, Hold)
    assert decision.reason.code == "paused"
    assert decision.reason.data == {"scope": scope, "name": name, "why": "upgrade"}


def test_other_tenants_go_on_while_one_is_paused():
    assert places(plan(replace(limited(0), pauses=(Pause(None, 1),)), of_other(1))) == {1: 1}


def test_a_paused_group_is_passed_over_and_named_when_there_is_no_other():
    here = world([node(1), node(2)], [group(1, [1]), group(2, [2])])
    here = replace(here, pauses=(Pause(1, None, "disk"),))
    decided = plan(here, pending(1, 2, [1, 2]), pending(2, 2, [1]), pending(3, 30, [1, 2]))
    assert places(decided) == {1: 2}
    assert reason_of(decided[2]).data == {"scope": "group", "name": "g1", "why": "disk"}
    assert reason_of(decided[3]).code == "no_capacity"


def test_a_job_whose_only_group_is_paused_keeps_nothing_from_others():
    here = world([node(1, 10)], [group(1, [1]), group(2, [1])])
    here = replace(here, pauses=(Pause(1),), tenants=(Tenant(1, "Ops", 1.0, 1),))
    decided = plan(here, pending(1, 2, [1], age=99), pending(2, 2, [2]))
    assert places(decided) == {2: 1}
