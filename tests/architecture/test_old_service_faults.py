"""Faults of ansible-runner-service that were seen when it ran, and what shows that they are not here.

Each row names tests or benchmarks by file and name; a row whose name is gone fails.
"""

from __future__ import annotations

import pytest

from tests.named_tests import missing

_API = "tests/integration/api/"
_PLAYBOOKS = f"{_API}test_v1_playbooks.py::"
_INVENTORY = f"{_API}test_v1_inventory.py::"
_RUNS = "tests/acceptance/test_runner_service.py::"
_SEED = "tests/acceptance/test_seed_scenario.py::"
_ODD = f"{_API}test_v1_odd_requests.py::"
_BENCHMARK = "benchmarks/runner_service.py::"

FAULTS: dict[str, tuple[str, ...]] = {
    "with a cache of five, the oldest running play is forgotten: 404, then 500 for ever": (
        f"{_RUNS}test_seven_plays_at_once_with_a_cache_of_five_lose_nothing",
        f"{_SEED}test_no_status_and_no_event_is_lost",
        f"{_SEED}test_nor_of_five_hundred_whose_events_are_replayed",
    ),
    "of two processes one knows nothing of the other's runs": (
        f"{_PLAYBOOKS}test_several_processes_answer_alike",
        f"{_PLAYBOOKS}test_three_processes_one_of_them_killed_lose_no_run",
        f"{_SEED}test_no_status_and_no_event_is_lost",
    ),
    "killed in mid-run: UNKNOWN for ever, and an orphan that cannot be canceled": (
        f"{_RUNS}test_a_run_goes_on_without_its_api_and_is_canceled_by_the_next",
    ),
    "a run that ends while four others are remembered has no summary": (
        f"{_PLAYBOOKS}test_the_word_and_the_summary_of_an_ended_run",
        f"{_SEED}test_no_status_and_no_event_is_lost",
    ),
    "no limit of plays at once": (f"{_PLAYBOOKS}test_a_queued_run_is_running_and_empty",),
    "the list of events is read from files each time": (
        f"{_PLAYBOOKS}test_events_are_listed_by_counter_and_uuid_in_order",
        f"{_PLAYBOOKS}test_a_list_that_has_not_changed_is_not_sent_again",
        f"{_BENCHMARK}measure",
    ),
    "a cancel is looked at every five seconds, and processes live on": (
        f"{_RUNS}test_a_running_play_is_canceled",
        f"{_RUNS}test_a_run_goes_on_without_its_api_and_is_canceled_by_the_next",
    ),
    "the port is ignored by the SSH check": (
        f"{_INVENTORY}test_a_host_that_lets_the_key_in_is_added",
    ),
    "an ssh that hangs is a success": (
        f"{_INVENTORY}test_a_host_that_hangs_is_a_timeout_and_holds_up_nobody",
    ),
    "an unreachable network is a 500": (
        f"{_INVENTORY}test_an_address_that_cannot_be_reached_is_not_contactable",
    ),
    "artifacts_remove_age 0 removes everything, live runs too": (
        "tests/unit/test_runner_config.py::test_keys_are_taken_ignored_or_dangerous",
        f"{_PLAYBOOKS}test_how_a_run_of_the_old_service_ended_is_read",
        "tests/integration/test_retention.py::test_with_retention_off_nothing_goes",
    ),
    "globs across runs": (f"{_PLAYBOOKS}test_an_unknown_event_is_not_found",),
    "'..' as a uuid, a playbook or a group": (
        f"{_PLAYBOOKS}test_an_unknown_run_is_not_found",
        f"{_PLAYBOOKS}test_a_run_is_refused_with_the_old_words",
        f"{_INVENTORY}test_hostile_names_change_nothing",
    ),
    "a tag with a line end": (f"{_PLAYBOOKS}test_a_run_is_refused_with_the_old_words",),
    "extra variables in the log": (f"{_PLAYBOOKS}test_variables_of_a_run_are_not_in_the_log",),
    "the environment in the artifacts": (
        f"{_PLAYBOOKS}test_variables_of_a_run_are_nowhere_in_the_root",
    ),
    "HTML for an unknown URL, bare JSON for a wrong method, 500 for odd bodies": (
        f"{_PLAYBOOKS}test_an_unknown_url_is_answered_in_the_envelope",
        f"{_PLAYBOOKS}test_a_wrong_method_is_answered_in_the_envelope",
        f"{_PLAYBOOKS}test_a_run_is_refused_with_the_old_words",
        f"{_INVENTORY}test_variables_of_an_unknown_group",
        f"{_ODD}test_odd_requests_are_answered_in_the_envelope",
        f"{_API}test_v1_description.py::test_generated_requests_are_answered_as_described",
    ),
    "an empty inventory is 409 for ever, a broken one 500": (
        f"{_INVENTORY}test_an_empty_file_is_an_empty_inventory",
        f"{_INVENTORY}test_an_ini_file_is_read_and_never_changed",
        f"{_INVENTORY}test_a_broken_file_is_no_fault",
    ),
    "the inventory is written in place": (
        f"{_INVENTORY}test_a_reader_never_sees_half_a_file",
        f"{_INVENTORY}test_changes_of_several_processes_are_all_kept",
    ),
    "its key is appended to the account's own authorized_keys": (
        f"{_PLAYBOOKS}test_nothing_is_written_to_the_accounts_own_authorized_keys",
    ),
    "it serves everybody without asking who they are": (
        f"{_PLAYBOOKS}test_a_name_that_is_not_loopback_is_refused",
        f"{_PLAYBOOKS}test_with_tokens_every_route_wants_one",
        f"{_API}test_v1_tls.py::test_nobody_else_is_let_in",
        f"{_API}test_serve.py::test_v1_without_authentication_is_refused_beyond_loopback",
    ),
}


@pytest.mark.parametrize("seen", FAULTS)
def test_what_shows_that_a_fault_is_gone_is_there(seen: str) -> None:
    assert FAULTS[seen]
    assert missing(FAULTS[seen]) == []
