"""What users of this dispatcher's ancestors met in the field, and what shows that it is right here.

The numbers are those of the trackers: ``runner`` is ansible-runner's, ``awx``, ``ansible`` and
``semaphore`` theirs. A row whose test is gone fails.
"""

from __future__ import annotations

import pytest

from tests.named_tests import missing

OUTPUT = "tests/integration/running/test_output.py"
OUTCOMES = "tests/integration/running/test_outcomes.py"
RUNS = "tests/integration/running/test_field_cases.py"
PLANS = "tests/integration/test_field_cases.py"
STDOUT = "tests/integration/api/test_stdout.py"
SHIPPER = "tests/integration/test_shipper.py"
PROJECTS = "tests/integration/updates/test_projects.py"
INVENTORIES = "tests/integration/updates/test_inventories.py"
NODE_RUNS = "tests/integration/test_node_runs.py"
RECOVERY = "tests/integration/test_node_recovery.py"
OUTAGE = "tests/integration/test_node_outage.py"

CASES: dict[str, tuple[str, ...]] = {
    # -- output
    "names and limits beyond ASCII, also under LANG=C (runner 234, 367)": (
        f"{OUTPUT}::test_names_beyond_ascii_survive_a_c_locale",
    ),
    "a NUL in one task's output, half a surrogate pair in another (awx 9279, 12252)": (
        f"{OUTPUT}::test_what_postgresql_cannot_store_is_replaced_and_marked",
        "tests/unit/test_events.py::test_nul_and_lone_surrogates_are_replaced_in_keys_and_values",
        "tests/unit/test_events.py::test_any_data_becomes_json_that_jsonb_takes",
    ),
    "bytes that are not UTF-8 (ansible 2956)": (
        f"{OUTPUT}::test_bytes_that_are_no_text_fail_their_task_and_nothing_else",
    ),
    "thousands of verbose lines (runner 242)": (
        f"{RUNS}::test_thousands_of_verbose_lines_arrive_whole_and_in_order",
    ),
    "colors are kept, other control sequences and <script> are harmless in HTML": (
        f"{OUTPUT}::test_colors_are_kept",
        f"{STDOUT}::test_ansi_keeps_colors_only",
        f"{STDOUT}::test_html_is_a_page_in_which_output_can_do_nothing",
        f"{STDOUT}::test_hostile_names_of_hosts_are_harmless_in_every_format",
    ),
    # -- scale
    "10,000 hosts and one task: summaries in bulk, the list paged (awx 6991)": (
        f"{SHIPPER}::test_the_recap_of_ten_thousand_hosts_is_stored_with_the_final_status",
        "tests/integration/api/test_events.py::test_host_summaries_are_listed_by_name_and_filtered",
        "tests/integration/api/test_lists.py::test_a_list_is_paged_and_its_links_lead_through_it",
    ),
    "more than 1,000 events a second from several jobs, the lag a metric (awx 3106)": (
        f"{SHIPPER}::test_many_runs_share_transactions_and_none_waits_for_a_large_one",
        f"{OUTAGE}::test_a_node_whose_spool_is_full_takes_no_jobs_says_why_and_comes_back_by_itself",
        "benchmarks/event_path.py::measure",
    ),
    "an inventory script that hangs: visible, timed, canceled": (
        f"{RUNS}::test_an_inventory_script_that_hangs_is_seen_timed_and_canceled",
        f"{INVENTORIES}::test_a_script_is_executed_and_one_that_hangs_is_stopped",
    ),
    # -- results
    "one of many hosts unreachable: truth by host, counts, tolerance (awx 527)": (
        f"{OUTCOMES}::test_a_run_ends_as",
        f"{OUTCOMES}::test_host_rows_are_the_recap",
        "tests/unit/test_outcome.py::test_tolerances_are_the_callers",
    ),
    "a failure rescued or ignored is counted and none (awx 7869)": (
        f"{OUTPUT}::test_ignored_and_rescued_failures_are_counted_and_no_failure",
    ),
    "a YAML error, an empty playbook, an unknown module name their place (awx 6842)": (
        f"{OUTCOMES}::test_a_run_ends_as",
        "tests/unit/test_findings.py::test_a_file_is_named_where_ansible_names_one",
    ),
    "a retry of until and a handler are no failure": (
        f"{RUNS}::test_a_retried_task_and_a_handler_are_no_failure",
    ),
    "async with poll ends; fire-and-forget jobs are listed": (
        f"{RUNS}::test_asynchronous_tasks_of_the_node_itself_keep_their_results_in_the_runs_home",
        f"{RUNS}::test_what_was_started_and_never_waited_for_is_listed",
        "tests/unit/test_findings.py::test_asynchronous_tasks_that_nobody_waited_for_are_listed",
    ),
    "set_stats before a later failure is kept (awx 13746, 3556)": (
        f"{RUNS}::test_statistics_set_before_a_failure_are_kept",
    ),
    # -- projects
    "two jobs with other requirements.yml at once; a failure is stage project (awx 10058)": (
        f"{PROJECTS}::test_two_branches_with_their_own_requirements_are_fetched_and_run_at_once",
        f"{PROJECTS}::test_requirements_that_cannot_be_installed_fail_the_update_by_name",
    ),
    "two jobs of one template on different branches (semaphore 3749)": (
        f"{PROJECTS}::test_two_branches_with_their_own_requirements_are_fetched_and_run_at_once",
        "tests/unit/test_plan_dependencies.py::test_each_branch_has_an_update_of_its_own",
    ),
    "a playbook with a space in its name, in a folder, .yaml": (
        f"{RUNS}::test_a_playbook_with_a_space_in_a_folder_and_the_long_suffix_runs",
        f"{PROJECTS}::test_two_branches_with_their_own_requirements_are_fetched_and_run_at_once",
    ),
    # -- hosts
    "a host in several groups runs once": (
        f"{RUNS}::test_a_host_in_several_groups_runs_once",
        "tests/unit/test_host_pattern.py::test_a_host_in_several_groups_is_there_once",
    ),
    "two names for one address, exclusive locks (semaphore 366)": (
        f"{PLANS}::test_two_names_for_one_address_never_run_at_once_under_exclusive_locks",
        "tests/unit/test_inventory.py::test_two_names_of_one_machine_have_one_address",
    ),
    # -- life
    "every role and server killed in every phase (semaphore 1385, 3287; awx 12326, 11301)": (
        "tests/acceptance/test_faults.py::test_a_cluster_that_is_broken_at_random_loses_and_doubles_nothing",
        "tests/acceptance/test_killed_processes.py::test_control_and_broker_killed_with_five_running_and_ten_pending_lose_nothing",
        "tests/acceptance/test_up.py::test_a_running_job_outlives_a_killed_up_and_ends_under_the_next_one",
        f"{RECOVERY}::test_a_killed_agent_is_started_again_and_takes_its_playbook_over",
        f"{RECOVERY}::test_a_playbook_that_ended_while_no_agent_was_there_is_finished_by_the_next_one",
        f"{RECOVERY}::test_rows_and_directories_that_do_not_go_together_are_settled_at_the_start",
        f"{NODE_RUNS}::test_a_killed_supervisor_ends_its_job_in_error_with_what_was_spooled",
        f"{OUTAGE}::test_a_database_that_is_away_during_a_run_costs_nothing_and_doubles_nothing",
        f"{OUTAGE}::test_without_a_broker_the_node_finds_its_jobs_by_itself",
        "tests/integration/test_recovery.py::test_running_jobs_of_a_lost_node_end_as_node_lost_and_canceled_ones_as_canceled",
        "tests/integration/api/test_outages.py::test_a_server_that_stops_and_starts_again_is_used_again",
    ),
    "all nodes drained, then a launch: accepted, starts once one is back (awx 6043)": (
        f"{PLANS}::test_a_launch_while_all_nodes_are_drained_is_accepted_and_starts_once_one_is_back",
        "tests/unit/test_plan_tasks.py::test_nodes_that_are_all_drained_are_told_from_nodes_that_are_not_there",
    ),
    "a full disk: the node stops claiming and says so (runner 1160)": (
        f"{NODE_RUNS}::test_a_node_that_is_not_fit_says_why_returns_its_jobs_and_comes_back_by_itself",
        f"{OUTAGE}::test_a_node_whose_spool_is_full_takes_no_jobs_says_why_and_comes_back_by_itself",
        "tests/faults/full_disk.py::fill",
        "tests/unit/test_node_trouble.py::test_a_full_disk_is_named",
        "tests/integration/running/test_stopping.py::test_a_spool_that_cannot_be_written_ends_the_run",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_shows_a_case_is_there(case: str) -> None:
    assert CASES[case]
    assert missing(CASES[case]) == []
