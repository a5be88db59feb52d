"""Host locks, kinds that run alone, and turns: who may overtake whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatcher.domain.status import Kind
from schedulers.core.decision import Block, Hold, Start
from schedulers.core.plan_tasks import Ledger, plan_window
from tests.unit.worlds import active, group, node, pending, places, plan, reason_of, world

ROOM = [node(1, 1000)]


def locked(id, mode, *keys, build=pending, **fields):
    """A job, pending unless told otherwise, with a host lock."""
    return build(id, host_lock=mode, lock_keys=keys, **fields)


@pytest.mark.parametrize(
    ("held", "wanted", "starts"),
    [
        ("exclusive", "exclusive", False),
        ("exclusive", "shared", False),
        ("shared", "exclusive", False),
        ("shared", "shared", True),
        ("none", "exclusive", True),
        ("exclusive", "none", True),
        ("none", "none", True),
    ],
)
def test_locks_on_one_host_collide_unless_both_share_it(held, wanted, starts):
    here = world(ROOM, active=[locked(90, held, "h1", "h2", build=active)])
    decision = plan(here, locked(1, wanted, "h2", "h3"))[1]
    assert isinstance(decision, Start if starts else Block)


def test_locks_on_different_hosts_do_not_collide():
    here = world(ROOM, active=[locked(90, "exclusive", "h1", build=active)])
    assert places(plan(here, locked(1, "exclusive", "h2"))) == {1: 1}


def test_a_lock_on_a_whole_inventory_is_a_key_like_any_other():
    here = world(ROOM, active=[locked(90, "exclusive", "inventory:abc", build=active)])
    decided = plan(here, locked(1, "shared", "inventory:abc"), locked(2, "shared", "inventory:d"))
    assert places(decided) == {2: 1}


def test_a_start_takes_its_locks_for_the_rest_of_the_pass():
    decided = plan(
        world(ROOM),
        locked(1, "exclusive", "h1", age=9),
        locked(2, "exclusive", "h1", age=8),
        locked(3, "shared", "h2", age=7),
        locked(4, "exclusive", "h2", age=6),
        locked(5, "shared", "h2", age=5),
    )
    assert places(decided) == {1: 1, 3: 1, 5: 1}


def test_a_job_that_only_waits_holds_no_locks():
    decided = plan(world([node(1, 5)]), locked(1, "exclusive", "h1", impact=6), pending(2, 1))
    decided |= plan(
        world([node(1, 5)], active=[active(90, 1, 1)]),
        locked(1, "exclusive", "h1", impact=6, age=9),
        locked(2, "exclusive", "h1", impact=1),
    )
    assert isinstance(decided[1], Hold)
    assert isinstance(decided[2], Start)


def test_the_jobs_that_hold_contested_hosts_are_named_and_bounded():
    holders = [locked(i, "shared", "h1", "h2", build=active) for i in range(200, 215)]
    other = locked(99, "exclusive", "h9", "h8", "h7", build=active)
    here = world(ROOM, active=[*holders[::-1], other])
    job = locked(1, "exclusive", "h0", "h9", "h8", "h7", "h2")
    reason = reason_of(plan(here, job)[1])
    assert reason.code == "host_lock"
    assert reason.data["jobs"] == [99, *range(200, 209)]
    assert reason.data["keys"] == ["h2", "h7", "h8"]
    assert reason.data["keys_total"] == 4
    assert reason.data["ahead"] == []


def test_one_cleanup_job_runs_at_a_time():
    idle = plan(world(ROOM), *(pending(i, kind=Kind.CLEANUP) for i in (1, 2)), pending(3))
    assert places(idle) == {1: 1, 3: 1}
    busy = world(ROOM, active=[active(90, kind=Kind.CLEANUP), active(91)])
    reason = reason_of(plan(busy, pending(1, kind=Kind.CLEANUP))[1])
    assert reason.code == "exclusive_kind"
    assert reason.data == {"kind": "cleanup", "jobs": [90], "ahead": []}


# -- turns: a job that waited long is not overtaken


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
    here = world([node(1, 5)], active=[active(90, 1, 3)])
    old = locked(1, "shared", "h1", impact=4, age=60)
    decided = plan(
        here,
        old,
        locked(2, "exclusive", "h1", impact=1),
        locked(3, "shared", "h1", impact=1, groups=[1]),
    )
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
    assert reason_of(decided[2]).data["reserved_for"] == 1


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
