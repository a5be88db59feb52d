"""Faults that users of this dispatcher's ancestors reported, and what shows here that they are gone.

The numbers are those of AWX's issue tracker. Each row names tests or benchmarks by file and name,
and the mutants that remove its fence; a row whose name is gone fails.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.mutants.mutants import MUTANTS
from tests.named_tests import missing


@dataclass(frozen=True)
class Fault:
    """What was seen there.

    Attributes:
        shown: ``file::name`` of what shows that it cannot be seen here.
        mutants: rules without which it could; empty where no manager has a part in it.
    """

    seen: str
    shown: tuple[str, ...]
    mutants: tuple[str, ...] = ()


FAULTS: dict[tuple[int, ...], Fault] = {
    (7655,): Fault(
        "more than 600 pending in one transaction, killed at 5 min, begun again from zero",
        (
            "tests/integration/test_fences.py::test_a_pass_that_is_killed_loses_no_more_than_the_window_in_hand",
            "tests/integration/test_control.py::test_a_manager_killed_inside_a_pass_is_followed_at_once",
            "benchmarks/slow_database.py::measure",
        ),
        ("a pass commits window by window",),
    ),
    (5617, 6078): Fault(
        "a frozen manager holds the lock for ever",
        (
            "tests/integration/test_manager_lease.py::test_a_holder_frozen_inside_its_transaction_loses_it_and_the_lease",
            "tests/integration/test_manager_lease.py::test_the_late_write_of_a_frozen_holder_is_refused",
        ),
        ("the epoch refuses late writes",),
    ),
    (12199, 15174): Fault(
        "the limit of starts bounds starts, not reads",
        (
            "tests/integration/test_fences.py::test_a_pass_reads_no_more_rows_than_it_may_whatever_the_backlog",
            "tests/integration/test_task_manager.py::test_a_backlog_of_several_passes_is_fruitless_once_it_was_walked",
            "benchmarks/backlog.py::measure",
        ),
        (
            "a pass reads at most pass_rows",
            "a backlog of several passes is walked once",
            "a walk counts from its head",
            "a walk over which somebody died does not count",
        ),
    ),
    (12440,): Fault(
        "runnable jobs wait behind ones that cannot run",
        (
            "tests/integration/test_fences.py::test_a_runnable_new_job_starts_in_one_run_behind_many_that_cannot",
            "tests/integration/test_task_manager.py::test_the_head_is_looked_at_between_windows_when_something_was_asked_for",
            "benchmarks/reactions.py::measure",
        ),
        ("what cannot run hides nothing behind it",),
    ),
    (14729,): Fault(
        "the exception of one job stops all starts, in every cycle",
        (
            "tests/integration/test_task_manager.py::test_a_job_whose_planning_raises_is_set_aside_and_the_others_start",
            "tests/integration/test_task_manager.py::test_a_job_whose_writing_raises_is_set_aside_and_the_others_start",
        ),
        ("one job's exception stops nobody", "what a planner raises costs one job"),
    ),
    (14324, 15559, 15610): Fault(
        "dependencies are collected over a batch: jobs blocked by themselves, failed by strangers",
        (
            "tests/unit/test_plan_dependencies.py::test_each_jobs_dependencies_are_exactly_its_own_whatever_is_beside_it",
            "tests/integration/test_dependency_manager.py::test_one_failing_update_fails_only_its_dependents",
        ),
        ("dependencies are a job's own",),
    ),
    (12629, 13072): Fault(
        "too many clients: what is owed after the commit needs a connection",
        (
            "tests/integration/test_task_manager.py::test_a_pass_starts_and_submits_while_somebody_holds_every_database_connection",
            "tests/integration/api/test_cancel.py::test_a_hundred_cancels_at_once_are_all_accepted",
            "benchmarks/max_connections.py::measure",
        ),
        ("submissions need no database connection",),
    ),
    (3418,): Fault(
        "a pool in transaction mode breaks locks",
        (
            "tests/integration/test_fences.py::test_leases_need_nothing_of_a_session",
            "tests/apt/test_pgbouncer_passes.py::test_every_manager_makes_its_pass",
        ),
        ("time-outs end with their transaction",),
    ),
    (12999,): Fault(
        "the size of a message grows with the graph",
        (
            "tests/integration/test_publish.py::test_starts_go_in_messages_of_at_most_a_hundred_to_their_nodes_queues",
        ),
        ("a message has a hundred starts at most",),
    ),
    (9594, 14277, 10211): Fault(
        '"was marked as running but was not present"',
        (
            "tests/acceptance/test_killed_processes.py::test_control_and_broker_killed_with_five_running_and_ten_pending_lose_nothing",
            "tests/integration/test_node_recovery.py::test_a_killed_agent_is_started_again_and_takes_its_playbook_over",
            "tests/integration/test_node_runs.py::test_a_killed_supervisor_ends_its_job_in_error_with_what_was_spooled",
            "tests/acceptance/test_faults.py::test_a_cluster_that_is_broken_at_random_loses_and_doubles_nothing",
        ),
        ("an end belongs to its dispatch", "only a lost node's running rows end"),
    ),
    (11301, 16467): Fault(
        "waiting for ever on a node that is gone",
        (
            "tests/integration/test_recovery.py::test_a_job_that_its_node_does_not_take_is_returned",
            "tests/integration/test_recovery.py::test_a_silent_node_becomes_suspect_and_its_waiting_jobs_are_returned",
            "tests/unit/test_plan_recovery.py::test_the_waiting_rows_of_a_removed_node_are_returned",
        ),
        (
            "rows of a removed node are returned",
            "rows of a node that is not alive are returned",
            "a row that nobody claims is returned",
        ),
    ),
    (12442, 13713): Fault(
        "healthy jobs are reaped on a busy node",
        (
            "tests/integration/test_recovery.py::test_a_job_that_its_node_holds_for_room_is_left_alone",
            "tests/unit/test_plan_recovery.py::test_a_node_that_renews_in_time_is_never_lost_whatever_clock_and_database_do",
            "tests/integration/test_node_load.py::test_jobs_beyond_the_nodes_room_wait_there_and_are_taken_in_order",
        ),
        (
            "a row that is queued on its node is not returned",
            "two misses more than fill node_lost_after",
            "at most one tick in five seconds",
        ),
    ),
    (11036,): Fault(
        "capacity from the host's memory inside of a container",
        (
            "tests/unit/test_measure_capacity.py::test_the_tightest_limit_of_the_cgroup_and_those_above_it_counts",
        ),
        ("capacity is that of the container",),
    ),
    (11800,): Fault(
        "more is admitted than the worker can hold",
        (
            "tests/unit/test_plan_properties.py::test_no_node_gets_more_than_it_has_but_for_an_oversized_job_alone",
            "tests/integration/test_node_load.py::test_jobs_beyond_the_nodes_room_wait_there_and_are_taken_in_order",
        ),
        ("max_jobs of a node", "capacity of a node", "an oversized job runs alone"),
    ),
    (9286, 6534): Fault(
        "the flag of the end depends on counts of events that never match",
        (
            "tests/integration/test_shipper.py::test_a_run_with_events_missing_never_ends_successful",
            "tests/integration/test_shipper.py::test_a_commit_with_an_unknown_end_neither_doubles_nor_loses_an_event",
        ),
        ("no success with events missing",),
    ),
    (5633, 14250): Fault(
        "buffers without a bound",
        (
            "tests/integration/running/test_stopping.py::test_a_full_quota_pauses_the_playbook_until_it_is_shipped",
        ),
    ),
    (13376,): Fault(
        "output is cut at 10 MiB",
        (
            "tests/integration/api/test_stdout.py::test_a_large_output_is_streamed_exactly_and_never_whole_in_memory",
        ),
    ),
    (14009, 10126, 15474): Fault(
        "ALL convergence runs after an error, a cancel, a denial",
        (
            "tests/unit/test_workflow_graph.py::test_every_end_of_two_parents_over_every_kind_of_edge",
            "tests/unit/test_workflow_graph.py::test_all_parents_must_lead_to_a_node_that_converges",
        ),
        (
            "ALL: every parent must lead to it",
            "ALL: runs only once all parents are decided",
            "a failed or canceled child is not successful",
            "success edge: not followed by a failed parent",
        ),
    ),
    (2675, 2700, 4341): Fault(
        "workflows hang",
        (
            "tests/unit/test_plan_workflows.py::test_every_random_graph_terminates_as_the_prose_says",
            "tests/integration/test_workflow_runs.py::test_random_graphs_end_and_cancels_at_random_times_leave_no_unfinished_child",
            "tests/integration/test_workflow_runs.py::test_a_node_whose_template_is_deleted_meanwhile_fails_and_the_rest_goes_on",
        ),
        (
            "do_not_run propagates in one evaluation",
            "a workflow is done when every node is decided",
            "a deleted template shows its children a failure",
            "a plain end touches its workflow",
        ),
    ),
    (15419, 7318): Fault(
        "450 workflows wait two minutes",
        (
            "tests/integration/test_workflow_runs.py::test_a_pass_takes_as_many_statements_for_two_hundred_workflows_as_for_one",
            "tests/integration/test_workflow_manager.py::test_a_pass_without_touches_is_fruitless_whatever_else_changes",
            "benchmarks/workflow_latency.py::measure",
        ),
        ("a pass without touches looks at no workflow",),
    ),
    (378, 11461, 3516, 11110, 13017): Fault(
        "a cancel has no effect, or shows failed",
        (
            "tests/integration/test_job_moves.py::test_a_requested_cancel_wins_over_what_the_run_reached",
            "tests/integration/test_job_moves.py::test_cancel_of_a_running_job_is_a_request_and_says_where_it_runs",
            "tests/integration/test_node_runs.py::test_a_canceled_job_ends_canceled_with_no_process_left",
        ),
        ("a cancel reaches what runs", "a requested cancel wins"),
    ),
    (14608, 16325): Fault(
        "the cancel of a workflow leaves children",
        (
            "tests/integration/test_workflow_runs.py::test_random_graphs_end_and_cancels_at_random_times_leave_no_unfinished_child",
            "tests/integration/test_workflow_runs.py::test_a_workflow_that_is_canceled_between_plan_and_apply_spawns_nothing",
        ),
        (
            "a canceled workflow cancels its children",
            "a canceled workflow skips what has not begun",
            "a canceled workflow ends when no child is active",
        ),
    ),
    (695, 13553, 15987): Fault(
        "deadlocks on rows of templates",
        (
            "tests/integration/test_fences.py::test_ends_of_one_templates_jobs_meet_on_no_row_of_it",
            "benchmarks/finishes.py::measure",
        ),
        ("nothing on a job's path writes its template's row",),
    ),
    (3553, 7683): Fault(
        "20 s between the end of an update and its job; a plain end wakes nobody",
        (
            "tests/integration/test_fences.py::test_whatever_ends_a_job_wakes_who_waits_for_it",
            "tests/integration/test_workflow_jobs.py::test_every_end_of_a_child_touches_its_workflow_and_wakes_its_manager",
            "benchmarks/reactions.py::measure",
        ),
        ("a plain end wakes the TaskManager",),
    ),
    (7136,): Fault("a launch takes a second", ("benchmarks/reactions.py::measure",)),
    (5014, 8071, 15696, 16400, 13089): Fault(
        "schedules repeat, burst, stop, and shift with summer time",
        (
            "tests/unit/test_schedule_clock_changes.py::test_a_daily_time_is_due_once_a_day_whatever_the_clocks_do",
            "tests/unit/test_schedule.py::test_missed_times_are_launched_as_the_policy_says",
            "tests/integration/test_due_schedules.py::test_however_many_managers_and_beats_there_are_a_due_time_is_launched_once",
            "tests/integration/test_due_schedules.py::test_a_burst_after_a_long_outage_is_launched_in_several_passes",
            "tests/integration/test_due_schedules.py::test_a_schedule_that_cannot_go_on_is_disabled_with_a_message_and_no_other",
        ),
        (
            "once: one launch for all that was missed",
            "a due time that was launched is not launched again",
            "a burst is cut",
            "a rule that cannot be evaluated disables its schedule",
            "a schedule moves on past now",
        ),
    ),
    (11316, 14304): Fault(
        "why is it pending?",
        (
            "tests/unit/test_explain.py::test_all_blockers_are_told_in_the_order_of_the_questions",
            "tests/unit/test_reasons.py::test_the_page_shows_the_words_of_every_code",
        ),
        (
            "a reason names the jobs that hold what is lacking",
            "an explanation tells every blocker",
        ),
    ),
}


@pytest.mark.parametrize(
    "fault", FAULTS.values(), ids=["-".join(map(str, numbers)) for numbers in FAULTS]
)
def test_what_shows_that_a_fault_is_gone_is_there(fault: Fault) -> None:
    assert fault.shown
    assert missing(fault.shown) == []
    assert set(fault.mutants) - {mutant.rule for mutant in MUTANTS} == set()


def test_every_mutant_of_a_fence_belongs_to_a_fault() -> None:
    named = {rule for fault in FAULTS.values() for rule in fault.mutants}
    fences = {m.rule for m in MUTANTS if m.tests or "plan_dependencies" in m.file}
    own = ("retr", "retention", "schedule", "job_moves", "partitions", "apply_recovery")
    assert {
        m.rule for m in MUTANTS if m.rule in fences and not any(word in m.file for word in own)
    } <= named


def test_no_number_stands_in_two_rows() -> None:
    numbers = [number for row in FAULTS for number in row]
    assert len(numbers) == len(set(numbers))
