"""Turns: who may overtake whom, and what is kept for a job that waited long."""

from __future__ import annotations

from dataclasses import replace

from dispatcher.domain.status import Kind
from schedulers.core.decision import Block, Hold, Start
from schedulers.core.plan_tasks import Ledger, plan_window
from tests.unit.worlds import (
    NOW,
    active,
    group,
    locked,
    node,
    pending,
    places,
    plan,
    reason_of,
    world,
)

ROOM = [node(1, 1000)]

# -- on locks


def test_a_young_exclusive_job_is_overtaken_by_a_check_run_and_an_old_one_is_not():
    here = world(ROOM, active=[locked(90, "shared", "h1", build=active)])
    check = locked(2, "shared", "h1", "h2")
    young = plan(here, locked(1, "exclusive", "h1", age=59), check)
    assert places(young) == {2: 1}
    old = plan(here, locked(1, "exclusive", "h1", age=60), check, locked(3, "shared", "h2"))
    assert places(old) == {3: 1}
    assert reason_of(old[2]).data["ahead"] == [1]
    assert reason_of(old[2]).data["jobs"] == []
    assert reason_of(old[2]).data["keys"] == ["h1"]


def test_an_old_check_run_without_room_is_not_overtaken_by_exclusive_jobs_on_its_hosts():
    here = world([node(1, 5), node(2, 3)], active=[active(90, 1, 3)])
    old = locked(1, "shared", "h1", impact=4, age=60)
    decided = plan(
        here,
        old,
        locked(2, "exclusive", "h1", impact=1),
        locked(3, "shared", "h1", impact=1),
    )
    assert places(decided) == {3: 2}
    assert isinstance(decided[2], Block)
    assert reason_of(decided[2]).data["ahead"] == [1]


def test_a_job_is_never_blocked_by_itself_when_it_is_looked_at_again():
    ledger = Ledger.of(world(ROOM, active=[locked(90, "shared", "h1", build=active)]))
    old = locked(1, "exclusive", "h1", age=60)
    first, ledger = plan_window(ledger, [old])
    again, _ = plan_window(ledger, [old])
    assert first == again
    assert reason_of(again[0]).data["ahead"] == []


def test_a_job_earlier_in_the_order_is_not_held_up_by_a_later_one_that_waited_long():
    ledger = Ledger.of(world(ROOM, active=[locked(90, "exclusive", "h1", build=active)]))
    _, ledger = plan_window(ledger, [locked(1, "exclusive", "h1", "h2", age=60)])
    decisions, _ = plan_window(ledger, [locked(2, "exclusive", "h2", age=61)])
    assert isinstance(decisions[0], Start)


def test_the_first_in_order_of_those_that_wait_for_a_lock_is_not_overtaken():
    here = world(ROOM, active=[locked(90, "exclusive", "h1", build=active)])
    first = locked(1, "exclusive", "h1", "h2", age=90)
    last = locked(2, "exclusive", "h1", "h2", age=70)
    between = locked(3, "exclusive", "h2", age=80)
    for windows in ([first, last], [last], [first]), ([first], [last]), ([last], [first]):
        ledger = Ledger.of(here)
        for window in windows:
            _, ledger = plan_window(ledger, window)
        (decision,), _ = plan_window(ledger, [between])
        assert reason_of(decision).data["ahead"] == [1]


def test_an_old_job_without_a_host_lock_claims_no_hosts():
    here = world([node(1, 5), node(2, 3)], active=[active(90, 1, 3)])
    decided = plan(
        here, locked(1, "none", "h1", impact=4, age=60), locked(2, "exclusive", "h1", impact=1)
    )
    assert places(decided) == {2: 2}


def test_an_old_cleanup_job_is_not_overtaken_by_another():
    here = world([node(1, 5), node(2, 3)], active=[active(90, 1, 3)])
    old = pending(1, 4, kind=Kind.CLEANUP, age=60)
    decided = plan(here, old, pending(2, 1, kind=Kind.CLEANUP), pending(3, 1))
    assert places(decided) == {3: 2}
    assert reason_of(decided[2]).data == {"kind": "cleanup", "jobs": [], "ahead": [1]}


# -- on room


def test_an_old_large_job_keeps_the_largest_node_from_later_jobs():
    here = world(
        [node(1, 12), node(2, 20, name="b"), node(3, 20, name="a")],
        active=[active(90, 1, 12), active(91, 2, 10), active(92, 3, 15)],
    )
    decided = plan(here, pending(1, 11, age=60), *(pending(i, 5) for i in (2, 3, 4)))
    assert places(decided) == {2: 2, 3: 2}
    reason = reason_of(decided[4])
    assert (reason.code, reason.data["free"], reason.data["reserved_for"]) == ("no_capacity", 0, 1)
    young = plan(here, pending(1, 11, age=59), *(pending(i, 5) for i in (2, 3, 4)))
    assert len(places(young)) == 3


def test_an_old_job_starts_wherever_it_fits_and_not_on_the_kept_node_only():
    here = world([node(1, 12), node(2, 20)], active=[active(91, 2, 10)])
    assert places(plan(here, pending(1, 11, age=60), pending(2, 5))) == {1: 1, 2: 2}


def test_an_old_oversized_job_keeps_the_largest_node_even_from_jobs_that_would_fit():
    here = world([node(1, 12), node(2, 20)], active=[active(90, 1, 1), active(91, 2, 1)])
    assert places(plan(here, pending(1, 50, age=60), pending(2, 12), pending(3, 11))) == {3: 1}


def test_one_job_at_a_time_keeps_a_node_of_a_group():
    here = world([node(i, 10) for i in (1, 2)], active=[active(90, 1, 5), active(91, 2, 5)])
    decided = plan(here, pending(1, 6, age=62), pending(2, 6, age=61), pending(3, 5))
    assert places(decided) == {3: 2}


def test_a_kept_node_serves_jobs_earlier_in_the_order():
    here = world([node(1, 10)], active=[active(90, 1, 5)])
    _, ledger = plan_window(Ledger.of(here), [pending(1, 6, age=60)])
    decisions, ledger = plan_window(ledger, [pending(2, 3, age=99), pending(3, 1)])
    assert [type(d) for d in decisions] == [Start, Hold]
    decisions, _ = plan_window(ledger, [pending(4, 3, age=99), pending(5, 2, age=98)])
    assert [type(d) for d in decisions] == [Hold, Start]


def test_a_kept_node_is_kept_in_every_group_that_it_is_in():
    here = world([node(1, 10)], [group(1, [1]), group(2, [1])], active=[active(90, 1, 5, group=2)])
    decided = plan(here, pending(1, 6, [1], age=60), pending(2, 1, [2]))
    assert places(decided) == {}
    assert reason_of(decided[2]).code == "no_capacity"
    assert reason_of(decided[2]).data["free"] == 0
    assert reason_of(decided[2]).data["reserved_for"] == 1


def test_two_groups_keep_two_nodes_for_their_first_jobs():
    nodes = [node(1, 10), node(2, 10), node(3, 4)]
    groups = [group(1, [1, 2]), group(2, [1, 2, 3]), group(3, [3])]
    here = world(nodes, groups, [active(90 + i, i, 3) for i in (1, 2, 3)])
    decided = plan(
        here,
        pending(1, 8, [1], age=62),
        pending(2, 8, [2], age=61),
        pending(3, 2, [2]),
        pending(4, 1, [3]),
        pending(5, 1, [3]),
    )
    assert places(decided) == {4: 3}
    assert reason_of(decided[3]).data["reserved_for"] == 1
    assert reason_of(decided[3]).data["free"] == 1
    # no node of that group is kept for anybody
    assert reason_of(decided[5]).data["reserved_for"] is None


def test_a_kept_node_is_no_node_of_the_groups_that_it_is_not_in():
    here = world([node(1, 10), node(2, 2)], [group(1, [1]), group(2, [2])], [active(90, 1, 5)])
    _, ledger = plan_window(Ledger.of(here), [pending(1, 6, age=60)])
    decisions, _ = plan_window(ledger, [pending(2, 2, [2], age=99), pending(3, 2, [2], age=98)])
    assert [type(d) for d in decisions] == [Start, Hold]
    assert decisions[0] == Start(2, 2, 2)


def test_a_job_earlier_in_the_order_takes_the_better_of_kept_and_other_nodes():
    busy = [active(90, 1, 10), active(91, 2, 6)]
    here = world([node(1, 20), node(2, 12)], active=busy)
    _, ledger = plan_window(Ledger.of(here), [pending(1, 11, age=60)])
    assert ledger.kept.keys() == {1}
    decisions, _ = plan_window(ledger, [pending(i, 2, age=99 - i) for i in (2, 3, 4, 5)])
    assert [d.node_id for d in decisions if isinstance(d, Start)] == [1, 1, 1, 2]


def test_a_kept_node_that_holds_its_most_jobs_gets_no_more_from_anybody():
    here = world([node(1, 20, max_jobs=1)], active=[active(90, 1, 10)])
    _, ledger = plan_window(Ledger.of(here), [pending(1, 11, age=60)])
    assert ledger.kept.keys() == {1}
    decisions, _ = plan_window(ledger, [pending(2, 2, age=99), pending(3, 2)])
    assert [reason_of(decision).code for decision in decisions] == ["node_limit", "node_limit"]
    assert [reason_of(d).data["reserved_for"] for d in decisions] == [None, 1]


def test_a_job_is_not_held_up_by_what_is_kept_for_itself():
    here = world([node(1, 10)], [group(1, [1], max_jobs=2, max_forks=10)], [active(90, 1, 5)])
    old = pending(1, 6, age=60)
    first, ledger = plan_window(Ledger.of(here), [old])
    again, _ = plan_window(ledger, [old])
    assert first == again
    assert reason_of(again[0]).code == "no_capacity"
    assert reason_of(again[0]).data["reserved_for"] is None


def test_a_job_earlier_in_the_order_is_not_held_up_by_a_limit_kept_for_a_later_one():
    here = world([node(1, 10)], [group(1, [1], max_jobs=2)], [active(90, 1, 5)])
    _, ledger = plan_window(Ledger.of(here), [pending(1, 6, age=60)])
    decisions, _ = plan_window(ledger, [pending(2, 1, age=99)])
    assert isinstance(decisions[0], Start)


def test_room_is_kept_in_the_first_group_in_which_the_job_could_run():
    groups = [group(1, [3]), group(2, [1], max_forks=4), group(3, [2])]
    here = world([node(1, 10), node(2, 10)], groups, [active(91, 1, 5, 2), active(92, 2, 5, 3)])
    decided = plan(
        here,
        pending(1, 6, [1, 2, 3], forks=5, age=60),
        pending(2, 1, [3]),
        pending(3, 1, [2], forks=1),
    )
    assert reason_of(decided[2]).data["reserved_for"] == 1
    assert isinstance(decided[3], Hold)
    assert reason_of(decided[3]).data["reserved_for"] is None


def test_a_node_too_small_for_the_job_is_not_kept_for_it():
    here = world(
        [node(1, 20), node(2, 5)],
        [group(1, [1, 2]), group(2, [1])],
        active=[active(90, 1, 20)],
    )
    # the large node is kept for job 1 through group 2, so job 2 finds no node of group 1 to keep
    decided = plan(here, pending(1, 6, [2], age=62), pending(2, 6, [1], age=61), pending(3, 5, [1]))
    assert places(decided) == {3: 2}


def test_an_old_job_at_the_groups_fork_limit_is_not_overtaken_by_small_ones():
    here = world(ROOM, [group(1, [1], max_forks=20)], active=[active(90, forks=5)])
    small = pending(2, forks=5)
    assert places(plan(here, pending(1, forks=16, age=59), small)) == {2: 1}
    old = plan(here, pending(1, forks=16, age=60), small)
    assert places(old) == {}
    assert reason_of(old[2]).data["reserved_for"] == 1
    assert reason_of(old[1]).data["reserved_for"] is None


def test_an_old_job_without_room_keeps_its_place_in_the_groups_job_limit():
    here = world(
        [node(1, 10), node(2, 3)], [group(1, [1, 2], max_jobs=2)], active=[active(90, 1, 5)]
    )
    assert places(plan(here, pending(1, 6, age=60), pending(2, 1))) == {}
    assert places(plan(here, pending(1, 6, age=59), pending(2, 1))) == {2: 1}


def test_a_job_that_lacks_only_the_limit_keeps_no_node_idle():
    here = world(
        [node(1, 10)],
        [group(1, [1], max_jobs=1), group(2, [1])],
        active=[active(90, 1, 1)],
    )
    assert places(plan(here, pending(1, age=60), pending(2, 9, [2]))) == {2: 1}


def test_a_job_that_can_never_run_keeps_nothing_from_others():
    here = world([node(1, 10)], [group(1, [1], max_forks=8)], active=[active(90, 1, forks=1)])
    never = locked(1, "exclusive", "h1", forks=9, age=600)
    blocked = locked(2, "exclusive", "h1", "h2", forks=9, age=500)
    decided = plan(here, never, blocked, locked(3, "exclusive", "h1", "h2", forks=7))
    assert places(decided) == {3: 1}


def test_the_wait_after_which_nobody_overtakes_comes_with_the_world():
    here = world([node(1, 10)], active=[active(90, 1, 5)])
    jobs = (pending(1, 6, age=10), pending(2, 1))
    assert places(plan(replace(here, reserve_after=10.0), *jobs)) == {}
    assert places(plan(replace(here, reserve_after=11.0), *jobs)) == {2: 1}


def test_time_counts_from_when_a_job_is_held_and_not_from_its_rank():
    here = world([node(1, 10)], active=[active(90, 1, 6)])
    small = pending(2, 4)
    urgent = pending(1, 8, rank=NOW.timestamp() - 7_200, held_since=NOW.timestamp() - 59)
    assert places(plan(here, urgent, small)) == {2: 1}
    assert places(plan(here, urgent._replace(held_since=None), small)) == {2: 1}
    assert places(plan(here, urgent._replace(held_since=NOW.timestamp() - 60), small)) == {}
