"""Host locks, and kinds of which one job runs at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatcher.domain.status import Kind
from schedulers.core.decision import Block, Hold, Start
from schedulers.core.snapshot import CoolingJob
from tests.unit.worlds import NOW, active, locked, node, pending, places, plan, reason_of, world

ROOM = [node(1, 1000)]


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
    other = locked(127, "exclusive", "h9", "h8", "h7", build=active)
    here = world(ROOM, active=[*holders[::-1], other])
    job = locked(1, "exclusive", "h0", "h9", "h8", "h7", "h2")
    reason = reason_of(plan(here, job)[1])
    assert reason.code == "host_lock"
    assert reason.data["jobs"] == [127, *range(200, 209)]
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


def test_the_smallest_ids_are_named_whatever_the_order_of_rows():
    ids = [900, 127, 512, 8, 64, *range(300, 310)]
    for rows in (ids, ids[::-1]):
        shared = world(ROOM, active=[locked(i, "shared", "h1", build=active) for i in rows])
        reason = reason_of(plan(shared, locked(1, "exclusive", "h1"))[1])
        assert reason.data["jobs"] == sorted(ids)[:10]
        exclusive = world(ROOM, active=[locked(i, "exclusive", "h1", build=active) for i in rows])
        assert reason_of(plan(exclusive, locked(1, "shared", "h1"))[1]).data["jobs"] == [8]


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_locks_of_a_job_stopped_by_force_are_kept_for_a_while(mode):
    def cooled(seconds):
        ended = CoolingJob(90, ("h1", "h2"), NOW.timestamp() + seconds)
        return replace(world(ROOM), cooling=(ended,))

    jobs = [locked(1, mode, "h2", "h3"), locked(2, mode, "h3"), locked(3, "none", "h1")]
    decided = plan(cooled(1), *jobs)
    assert places(decided) == {2: 1, 3: 1}
    reason = reason_of(decided[1])
    assert (reason.code, reason.data["cooling"], reason.data["keys"]) == ("host_lock", [90], ["h2"])
    assert reason.data["jobs"] == []
    assert places(plan(cooled(0), jobs[0])) == {1: 1}
