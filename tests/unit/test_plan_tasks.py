"""TaskManager's decisions, one rule at a time, in worlds that can be read."""

from __future__ import annotations

import json

import pytest

from dispatcher.domain.outcome import Outcome
from dispatcher.domain.status import Kind, Status
from schedulers.core.decision import Begin, Block, Fail, Hold, Start, Strike
from schedulers.core.plan_tasks import Ledger, plan_window
from tests.unit.worlds import (
    active,
    dependency,
    group,
    node,
    pending,
    places,
    plan,
    reason_of,
    world,
)

# -- order


def test_the_oldest_job_gets_the_only_room():
    decided = plan(world([node(1, 2)]), pending(1, age=10), pending(2, age=20))
    assert places(decided) == {2: 1}


def test_jobs_of_equal_rank_go_by_id():
    decided = plan(world([node(1, 2)]), pending(8), pending(7))
    assert places(decided) == {7: 1}


def test_a_job_that_cannot_run_hides_none_behind_it():
    decided = plan(
        world([node(1, 10)]), pending(1, 11, [9], age=90), pending(2, 10, age=80), pending(3, 1)
    )
    assert places(decided) == {2: 1}


# -- dependencies


@pytest.mark.parametrize(
    ("status", "word"),
    [(Status.FAILED, "Failed"), (Status.ERROR, "Failed"), (Status.CANCELED, "Canceled")],
)
def test_a_job_fails_with_its_dependency(status, word):
    job = pending(5, dependencies=(dependency(3, status),))
    decision = plan(world([node(1)]), job)[5]
    assert isinstance(decision, Fail)
    assert decision.outcome is Outcome.DEPENDENCY
    words, _, about = decision.explanation.partition(": ")
    assert words == f"Previous Task {word}"
    assert json.loads(about) == {"job_type": "project_update", "job_name": "", "job_id": "3"}


def test_a_failed_dependency_decides_before_unfinished_ones_and_the_smallest_id_is_named():
    job = pending(
        5,
        dependencies=(
            dependency(4, Status.CANCELED),
            dependency(1, Status.RUNNING),
            dependency(3, Status.FAILED, Kind.INVENTORY_UPDATE),
        ),
    )
    decision = plan(world([node(1)]), job)[5]
    assert isinstance(decision, Fail)
    assert '"job_type": "inventory_update"' in decision.explanation


@pytest.mark.parametrize("status", [Status.PENDING, Status.WAITING, Status.RUNNING])
def test_a_job_is_blocked_by_an_unfinished_dependency(status):
    ended = dependency(2, Status.SUCCESSFUL)
    job = pending(5, dependencies=(dependency(3, status), ended))
    decision = plan(world([node(1)]), job)[5]
    assert isinstance(decision, Block)
    assert reason_of(decision).code == "dependency"
    assert reason_of(decision).data == {"jobs": [3], "jobs_total": 1}


def test_a_job_whose_dependencies_all_succeeded_starts():
    job = pending(5, dependencies=(dependency(3, Status.SUCCESSFUL),))
    assert places(plan(world([node(1)]), job)) == {5: 1}


def test_one_failed_dependency_fails_only_its_own_job():
    decided = plan(
        world([node(1)]), pending(5, dependencies=(dependency(3, Status.FAILED),)), pending(6)
    )
    assert isinstance(decided[5], Fail)
    assert isinstance(decided[6], Start)


# -- workflows, approvals, faults


def test_a_workflow_job_begins_without_a_node():
    job = pending(1, 0, kind=Kind.WORKFLOW)
    assert plan(world([]), job)[1] == Begin(1)


def test_a_workflow_job_waits_for_its_dependencies_too():
    waits = pending(1, 0, kind=Kind.WORKFLOW, dependencies=(dependency(9, Status.RUNNING),))
    assert isinstance(plan(world([]), waits)[1], Block)


def test_a_job_whose_deciding_raises_gets_a_strike_and_the_others_start():
    broken = pending(1, age=50, dependencies=(None,))
    decided = plan(world([node(1)]), broken, pending(2), pending(3, kind=Kind.APPROVAL))
    assert isinstance(decided[1], Strike)
    assert "AttributeError" in decided[1].error
    assert isinstance(decided[3], Strike)
    assert places(decided) == {2: 1}


# -- nodes


def test_the_node_with_the_most_remaining_capacity_is_chosen():
    here = world([node(1, 10), node(2, 12), node(3, 9)], active=[active(90, 2, 4)])
    assert places(plan(here, pending(1))) == {1: 1}


def test_each_start_counts_for_the_next():
    decided = plan(world([node(1, 10), node(2, 9)]), *(pending(i, 2) for i in range(1, 5)))
    assert places(decided) == {1: 1, 2: 2, 3: 1, 4: 2}


def test_equal_nodes_go_by_name_and_not_by_id():
    here = world([node(1, name="zulu"), node(2, name="alpha"), node(3, name="mike")])
    assert places(plan(here, pending(1))) == {1: 2}


def test_a_job_fits_when_it_takes_exactly_what_is_left():
    here = world([node(1, 10)], active=[active(90, 1, 6)])
    assert places(plan(here, pending(1, 4), pending(2, 1))) == {1: 1}


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "suspect"},
        {"state": "lost"},
        {"state": "left"},
        {"enabled": False},
        {"draining": True},
        {"accepting": False},
        {"capacity": 0},
    ],
)
def test_a_node_that_takes_no_jobs_gets_none(fields):
    here = world([node(1, **fields), node(2, 3)])
    assert places(plan(here, pending(1), pending(2))) == {1: 2}


def test_a_node_runs_no_more_jobs_than_its_worker_can_hold():
    here = world([node(1, 100, max_jobs=2), node(2, 3)], active=[active(90, 1)])
    assert places(plan(here, *(pending(i) for i in (1, 2, 3)))) == {1: 1, 2: 2}


def test_a_job_of_no_impact_counts_as_a_job_of_its_node():
    decided = plan(world([node(1, 10, max_jobs=1)]), pending(1, 0, age=9), pending(2, 1))
    assert places(decided) == {1: 1}
    assert reason_of(decided[2]).code == "node_limit"


def test_when_every_node_holds_its_most_jobs_the_reason_says_so():
    here = world([node(1, 100, max_jobs=1)], active=[active(90, 1)])
    reason = reason_of(plan(here, pending(1))[1])
    assert reason.code == "node_limit"
    assert reason.data == {
        "group": "g1",
        "nodes": 1,
        "jobs": [90],
        "jobs_total": 1,
        "reserved_for": None,
    }


def test_a_job_on_a_node_that_left_holds_no_room_elsewhere():
    here = world([node(1, 4), node(2, state="lost")], active=[active(90, 2), active(91, None)])
    assert places(plan(here, pending(1, 4))) == {1: 1}


# -- oversized jobs


def test_a_job_larger_than_any_node_runs_alone_on_the_largest_idle_one():
    here = world([node(1, 20), node(2, 10), node(3, 12)], active=[active(90, 1, 1)])
    decided = plan(here, pending(1, 50, age=9), pending(2, 1), pending(3, 20), pending(4, 0))
    assert places(decided) == {1: 3, 2: 1, 4: 1}


def test_equal_idle_nodes_go_by_name_for_an_oversized_job():
    here = world([node(1, 10, name="b"), node(2, 10, name="a"), node(3, 10, name="c")])
    assert places(plan(here, pending(1, 50))) == {1: 2}


def test_an_oversized_job_waits_while_no_node_is_idle():
    here = world([node(1, 20)], active=[active(90, 1, 1)])
    reason = reason_of(plan(here, pending(1, 50))[1])
    assert reason.code == "no_capacity"
    assert (reason.data["needed"], reason.data["free"], reason.data["largest"]) == (50, 19, 20)


def test_a_node_that_just_got_a_job_is_not_idle():
    decided = plan(world([node(1, 20)]), pending(1, 1, age=9), pending(2, 50))
    assert places(decided) == {1: 1}


def test_nothing_joins_an_oversized_job():
    here = world([node(1, 10)], active=[active(90, 1, 50)])
    decided = plan(here, pending(1, 0), pending(2, 1), pending(3, 11))
    assert places(decided) == {}
    assert reason_of(decided[2]).data["free"] == 0


# -- groups


def test_preferred_groups_are_tried_in_order():
    here = world([node(1, 3), node(2, 30)], [group(1, [1]), group(2, [2])])
    assert plan(here, pending(1, 3, [1, 2], age=5), pending(2, 3, [1, 2])) == {
        1: Start(1, 1, 1),
        2: Start(2, 2, 2),
    }


def test_a_group_that_no_longer_exists_is_passed_over():
    assert plan(world([node(1)]), pending(1, 2, [7, 1])) == {1: Start(1, 1, 1)}


def test_a_group_at_its_job_limit_passes_the_job_to_the_next():
    here = world([node(1, 30)], [group(1, [1], max_jobs=2), group(2, [1])], active=[active(90, 1)])
    decided = plan(here, *(pending(i, 2, [1, 2]) for i in (1, 2)))
    assert decided == {1: Start(1, 1, 1), 2: Start(2, 2, 1)}


def test_the_job_limit_counts_what_went_through_the_group_only():
    here = world(
        [node(1, 30)],
        [group(1, [1], max_jobs=1), group(2, [1])],
        active=[active(90, 1, group=2)],
    )
    assert places(plan(here, pending(1), pending(2))) == {1: 1}


def test_a_group_at_its_job_limit_is_named_with_numbers_and_holders():
    here = world([node(1, 30)], [group(1, [1], max_jobs=1)], active=[active(90, 1)])
    reason = reason_of(plan(here, pending(1))[1])
    assert reason.code == "group_limit"
    assert reason.data == {
        "group": "g1",
        "limit": "max_concurrent_jobs",
        "allowed": 1,
        "used": 1,
        "needed": 1,
        "jobs": [90],
        "jobs_total": 1,
        "reserved_for": None,
    }


def test_forks_are_limited_by_their_sum():
    here = world([node(1, 90)], [group(1, [1], max_forks=12)], active=[active(90, 1, forks=5)])
    decided = plan(here, pending(1, forks=8), pending(2, forks=7), pending(3, forks=1))
    assert places(decided) == {2: 1}
    reason = reason_of(decided[1])
    assert reason.data["limit"] == "max_forks"
    assert (reason.data["allowed"], reason.data["used"], reason.data["needed"]) == (12, 5, 8)


def test_a_lack_of_room_is_reported_rather_than_a_limit():
    here = world(
        [node(1, 3), node(2, 3)],
        [group(1, [1], max_jobs=1), group(2, [2])],
        active=[active(90, 1, 1), active(91, 2, 2, group=2)],
    )
    reason = reason_of(plan(here, pending(1, 2, [1, 2]))[1])
    assert (reason.code, reason.data["group"]) == ("no_capacity", "g2")


def test_the_first_of_two_full_groups_is_reported():
    here = world([node(1, 1), node(2, 1)], [group(1, [1]), group(2, [2])])
    held = active(90, 1, 1), active(91, 2, 1, group=2)
    reason = reason_of(plan(world(here.nodes, here.groups, held), pending(1, 1, [2, 1]))[1])
    assert reason.data["group"] == "g2"


def test_the_first_of_two_groups_at_their_limits_is_reported():
    groups = [group(1, [1], max_jobs=1), group(2, [1], max_forks=4)]
    here = world([node(1, 30)], groups, [active(90, 1)])
    reason = reason_of(plan(here, pending(1, 2, [1, 2]))[1])
    assert (reason.data["group"], reason.data["limit"]) == ("g1", "max_concurrent_jobs")


def test_the_holders_of_a_limit_are_named_by_their_forks():
    jobs = [active(90, 1, 9, forks=1), active(91, 1, 1, forks=9), active(92, 1, forks=5)]
    here = world([node(1, 99), node(2, 99)], [group(1, [1, 2], max_forks=15)], jobs)
    assert reason_of(plan(here, pending(1))[1]).data["jobs"] == [91, 92, 90]


def test_the_holders_of_a_group_are_named_by_size_and_bounded():
    jobs = [active(i, 1, 1 + i % 3) for i in range(100, 130)]
    reason = reason_of(plan(world([node(1, 60)], active=jobs), pending(1, 2))[1])
    largest = [i for i in range(100, 130) if i % 3 == 2]
    assert reason.data["jobs"] == largest[:10]
    assert reason.data["jobs_total"] == 30


def test_a_job_started_in_this_pass_is_named_as_a_holder():
    reason = reason_of(plan(world([node(1, 2)]), pending(1, age=9), pending(2))[2])
    assert reason.data["jobs"] == [1]
    assert (reason.data["needed"], reason.data["free"], reason.data["largest"]) == (2, 0, 2)


def test_nodes_that_are_all_drained_are_told_from_nodes_that_are_not_there():
    groups = [group(1, [1, 3]), group(2, [2]), group(3, [])]
    here = world([node(1, draining=True), node(2, state="lost"), node(3, enabled=False)], groups)
    decided = plan(here, pending(1, 2, [1, 2]), pending(2, 2, [2, 3]), pending(3, 2, [8]))
    assert reason_of(decided[1]).code == "all_drained"
    assert reason_of(decided[1]).data == {"groups": ["g1", "g2"], "nodes": 2}
    assert reason_of(decided[2]).code == "no_nodes_online"
    assert reason_of(decided[2]).data == {"groups": ["g2", "g3"]}
    assert reason_of(decided[3]).data == {"groups": []}


# -- start limit, windows


def test_a_pass_starts_no_more_than_its_limit_and_says_that_it_stopped_early():
    ledger = Ledger.of(world([node(1, 100)]))
    first, ledger = plan_window(ledger, [pending(1), pending(2)], 3)
    assert not ledger.stopped_early
    second, ledger = plan_window(ledger, [pending(3), pending(4), pending(5, 999)], 3)
    assert ledger.stopped_early
    assert ledger.starts == 3
    assert [type(d) for d in first + second] == [Start, Start, Start, Hold, Hold]
    assert reason_of(second[1]).code == "start_limit"
    assert reason_of(second[1]).data == {"limit": 3}
    assert reason_of(second[2]).code == "no_capacity"


def test_a_limit_that_held_nobody_is_no_early_stop():
    _, ledger = plan_window(Ledger.of(world([node(1, 2)])), [pending(1), pending(2)], 1)
    assert not ledger.stopped_early


def test_planning_leaves_the_ledger_it_was_given_as_it_was():
    ledger = Ledger.of(world([node(1, 10)], [group(1, [1], max_jobs=3)]))
    job = pending(1, host_lock="exclusive", lock_keys=("h1",), kind=Kind.CLEANUP)
    held = [pending(i, 9, host_lock="shared", lock_keys=("h2",), age=999) for i in (2, 3)]
    once, _ = plan_window(ledger, [job, *held])
    again, _ = plan_window(ledger, [job, *held])
    assert once == again
    assert ledger == Ledger.of(world([node(1, 10)], [group(1, [1], max_jobs=3)]))


def test_a_new_job_at_the_head_is_decided_in_a_ledger_that_has_seen_the_tail():
    ledger = Ledger.of(world([node(1, 10)]))
    _, ledger = plan_window(ledger, [pending(1, 7, age=20), pending(2, 4, age=10)])
    decisions, _ = plan_window(ledger, [pending(2, 4, age=10), pending(3, 3, age=5)])
    assert [type(d) for d in decisions] == [Hold, Start]
