"""Recovery's decisions: which nodes are silent, what becomes of their rows."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulers.core.decision import FinishLost, Resubmit, Return, SetNodeState, Watch
from schedulers.core.plan_recovery import lost_at, observe_nodes, plan_recovery, suspect_at
from schedulers.core.recovery_snapshot import (
    NodeObservation,
    Observations,
    RecoverySnapshot,
    RunningRow,
    WaitingRow,
)
from tests.unit.worlds import NOW

DISPATCH = UUID(int=7)


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def seen(**fields):
    """An alive node that renewed since the last tick, five seconds ago."""
    usual = {
        "node_id": 1,
        "state": "alive",
        "seq": 8,
        "watched_seq": 7,
        "missed": 0,
        "ticked_at": ago(5),
        "running_jobs": 0,
    }
    return NodeObservation(**(usual | fields))


def observe(*nodes, now=NOW):
    return observe_nodes(Observations(now, heartbeat=5, node_lost_after=300, nodes=nodes))


SILENT = {"seq": 7}

# -- counting


def test_a_renewal_sets_the_count_to_nothing():
    assert observe(seen(missed=2)) == [Watch(1, 8, 0)]


def test_a_counter_that_went_back_has_moved():
    assert observe(seen(seq=3, watched_seq=7, missed=61)) == [Watch(1, 3, 0)]


def test_silence_since_the_last_tick_counts_one_more():
    assert observe(seen(**SILENT, missed=1)) == [Watch(1, 7, 2)]


@pytest.mark.parametrize("seconds", [0, 1, 4.999])
def test_nothing_is_counted_less_than_five_seconds_after_a_tick(seconds):
    assert observe(seen(**SILENT, missed=70, ticked_at=ago(seconds))) == []


@pytest.mark.parametrize("seconds", [6, 86_400, -1, -86_400])
def test_a_step_of_the_clock_in_either_direction_counts_as_one_tick(seconds):
    assert observe(seen(**SILENT, missed=0, ticked_at=ago(seconds))) == [Watch(1, 7, 1)]


def test_a_node_seen_for_the_first_time_is_only_remembered():
    assert observe(seen(watched_seq=None, ticked_at=None)) == [Watch(1, 8, 0)]


def test_nodes_are_decided_in_order_of_id():
    decisions = observe(seen(node_id=3), seen(node_id=1), seen(node_id=2))
    assert [decision.node_id for decision in decisions] == [1, 2, 3]


# -- states


def test_three_silent_heartbeats_make_a_node_suspect():
    assert observe(seen(**SILENT, missed=1)) == [Watch(1, 7, 2)]
    assert observe(seen(**SILENT, missed=2)) == [Watch(1, 7, 3), SetNodeState(1, "suspect", 7)]


@pytest.mark.parametrize(("heartbeat", "misses"), [(0.2, 1), (1, 1), (2, 2), (5, 3), (27, 17)])
def test_the_misses_for_suspicion_follow_the_heartbeat(heartbeat, misses):
    assert suspect_at(heartbeat) == misses


@pytest.mark.parametrize(("seconds", "misses"), [(300, 62), (301, 63), (10, 4), (12, 5)])
def test_a_node_is_lost_two_misses_past_its_time(seconds, misses):
    assert lost_at(seconds) == misses


@pytest.mark.parametrize("state", ["alive", "suspect"])
def test_a_node_is_lost_at_the_sixty_second_miss(state):
    before = observe(seen(**SILENT, missed=60, state=state))
    assert SetNodeState(1, "lost", 7) not in before
    at = observe(seen(**SILENT, missed=61, state=state))
    assert at == [Watch(1, 7, 62), SetNodeState(1, "lost", 7)]


def test_a_suspect_node_that_renews_is_alive_again():
    assert observe(seen(state="suspect", missed=9)) == [
        Watch(1, 8, 0),
        SetNodeState(1, "alive", 8),
    ]


def test_a_suspect_node_that_was_not_watched_before_stays_suspect_until_it_renews():
    assert observe(seen(**SILENT, state="suspect", missed=0)) == [Watch(1, 7, 1)]


def test_a_suspect_node_that_goes_on_being_silent_changes_nothing_but_the_count():
    assert observe(seen(**SILENT, state="suspect", missed=30)) == [Watch(1, 7, 31)]


def test_what_was_counted_of_a_lost_node_does_not_weigh_on_its_next_epoch():
    assert observe(seen(**SILENT, state="lost", missed=62)) == [Watch(1, 7, 0)]
    assert observe(seen(**SILENT, state="lost", missed=0)) == []


def test_a_lost_node_comes_back_only_by_registering_anew():
    assert observe(seen(state="lost", missed=0)) == []


def test_a_node_that_left_stays_left_whatever_it_is_silent():
    assert observe(seen(**SILENT, state="left", missed=500)) == [Watch(1, 7, 501)]


def test_a_node_that_left_running_jobs_behind_is_lost_in_the_end():
    gone = seen(**SILENT, state="left", running_jobs=1)
    assert observe(replace(gone, missed=60)) == [Watch(1, 7, 61)]
    assert observe(replace(gone, missed=61)) == [Watch(1, 7, 62), SetNodeState(1, "lost", 7)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_node_that_renews_in_time_is_never_lost_whatever_clock_and_database_do(seed):
    """Renewals at most 270 s apart, in real time; a clock that steps once in between renewals.

    The database may be away for hours: then there is neither a renewal nor a tick.
    """
    chance = random.Random(seed)
    node = seen(watched_seq=7, seq=7, ticked_at=NOW)
    clock = NOW
    for _ in range(4):
        silent_for = chance.uniform(1, 270)
        step_at, elapsed = chance.uniform(0, silent_for), 0.0
        while elapsed < silent_for:
            pause = chance.choice([0.3, 5.0, 5.1, 9.0])
            elapsed += pause
            clock += timedelta(seconds=pause)
            if elapsed >= step_at:
                clock += timedelta(seconds=chance.choice([-7200, -3, 4, 7200]))
                step_at = float("inf")
            for decision in observe(node, now=clock):
                if isinstance(decision, Watch):
                    node = replace(
                        node,
                        watched_seq=decision.seq,
                        missed=decision.missed,
                        ticked_at=clock,
                    )
                else:
                    assert decision.state != "lost"
                    node = replace(node, state=decision.state)
        node = replace(node, seq=node.seq + 1)
        clock += timedelta(hours=chance.choice([0, 0, 3]))


# -- rows


def waiting(id=1, **fields):
    """A row that was submitted to an alive node a second ago."""
    usual = {
        "job_id": id,
        "dispatch_id": DISPATCH,
        "node_name": "n1",
        "node_state": "alive",
        "node_removed": False,
        "waiting_since": ago(1),
        "submitted_at": ago(1),
        "submissions": 1,
        "queued_on_node": False,
    }
    return WaitingRow(**(usual | fields))


def recover(*rows, running=()):
    return plan_recovery(RecoverySnapshot(NOW, 10, 30, waiting=rows, running=tuple(running)))


def why(decision):
    assert isinstance(decision, Return)
    assert decision.reason.code == "returned"
    assert decision.dispatch_id == DISPATCH
    assert decision.reason.data["node"] == "n1"
    return decision.reason.data["why"]


def test_a_fresh_waiting_row_is_left_alone():
    assert recover(waiting()) == []


@pytest.mark.parametrize(("submissions", "gap"), [(1, 10), (2, 20), (3, 40)])
def test_a_submission_is_repeated_after_gaps_that_double(submissions, gap):
    early = waiting(submissions=submissions, submitted_at=ago(gap - 0.1))
    due = waiting(submissions=submissions, submitted_at=ago(gap))
    assert recover(early) == []
    assert recover(due) == [Resubmit(1, DISPATCH, "n1")]


def test_a_submission_is_repeated_three_times_at_most():
    assert recover(waiting(submissions=4, submitted_at=ago(10_000))) == []


def test_a_row_that_is_queued_on_its_node_is_neither_resubmitted_nor_returned():
    assert (
        recover(waiting(queued_on_node=True, waiting_since=ago(9e4), submitted_at=ago(9e4))) == []
    )


def test_a_row_that_nobody_claims_is_returned_past_the_limit():
    assert recover(waiting(waiting_since=ago(30))) == []
    (decision,) = recover(waiting(waiting_since=ago(30.1), submitted_at=ago(30.1)))
    assert why(decision) == "not_claimed"


@pytest.mark.parametrize("state", ["lost", "suspect", "left"])
@pytest.mark.parametrize("queued", [True, False])
def test_the_waiting_rows_of_a_node_that_is_not_alive_are_returned_at_once(state, queued):
    (decision,) = recover(waiting(node_state=state, queued_on_node=queued))
    assert why(decision) == state


def test_the_waiting_rows_of_a_removed_node_are_returned():
    (decision,) = recover(waiting(node_removed=True, queued_on_node=True))
    assert why(decision) == "removed"


@pytest.mark.parametrize("shut", ["disabled", "draining"])
def test_the_waiting_rows_of_a_node_that_operators_shut_are_returned(shut):
    (decision,) = recover(waiting(node_shut=shut, queued_on_node=True))
    assert why(decision) == shut


def test_running_rows_end_with_a_lost_node_only():
    rows = [
        RunningRow(id, DISPATCH, "n1", state)
        for id, state in enumerate(("suspect", "lost", "left", "alive"))
    ]
    assert recover(running=rows) == [FinishLost(1, DISPATCH, "n1")]


def test_rows_are_decided_once_and_in_order_of_job():
    rows = [waiting(i, node_state="lost", submitted_at=ago(99)) for i in (3, 1, 2)]
    running = [RunningRow(i, DISPATCH, "n1", "lost") for i in (9, 8)]
    assert [d.job_id for d in recover(*rows, running=running)] == [1, 2, 3, 8, 9]
