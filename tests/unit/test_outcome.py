"""Outcomes: decided from evidence, never from the return code alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.domain.outcome import Outcome
from workers.outcome import Evidence, HostRow, Tolerances, decide, host_rows

STRICT = Tolerances()


def recap(**counts: dict[str, int]) -> dict[str, dict[str, int]]:
    hosts = {host for each in counts.values() for host in each}
    return {"processed": dict.fromkeys(hosts, 1), **counts}


def played(rc: int = 0, **counts: dict[str, int]) -> Evidence:
    return Evidence(rc=rc, stats=recap(**counts), plays=1)


FINE = played(ok={"a": 1, "b": 2})
FAILED = played(2, ok={"a": 1}, failures={"b": 1})
DARK = played(4, ok={"a": 1}, dark={"b": 1})
BOTH = played(6, failures={"a": 1}, dark={"b": 1})
NO_RECAP = Evidence(rc=4, error="YAML parsing failed: x", error_file="site.yml")

CASES = [
    (FINE, Outcome.SUCCESSFUL, ""),
    (played(ok={"a": 1}, rescued={"a": 1}, ignored={"a": 2}), Outcome.SUCCESSFUL, ""),
    (FAILED, Outcome.FAILED_HOSTS, "1 of 2 hosts failed: b"),
    (DARK, Outcome.UNREACHABLE, "1 of 2 hosts unreachable: b"),
    (BOTH, Outcome.FAILED_HOSTS, "1 of 2 hosts failed: a; 1 of 2 hosts unreachable: b"),
    (Evidence(rc=0, stats=recap(), plays=2, plays_without_hosts=2), Outcome.NO_HOSTS, "no play"),
    (Evidence(rc=0, stats=recap(), plays=2, plays_without_hosts=1), Outcome.SUCCESSFUL, ""),
    (
        Evidence(rc=1, error="Specified inventory … leaves us with no hosts to target."),
        Outcome.NO_HOSTS,
        "the limit matches no host",
    ),
    (
        replace(NO_RECAP, error_line=4, error_column=6),
        Outcome.PARSE_ERROR,
        "YAML parsing failed: x (site.yml, line 4, column 6)",
    ),
    (replace(NO_RECAP, plays=1), Outcome.PARSE_ERROR, "(site.yml)"),
    (Evidence(rc=1, error="Unable to retrieve file"), Outcome.PARSE_ERROR, "Unable"),
    (
        Evidence(rc=1, error="Unable", plays=1),
        Outcome.INCOMPLETE,
        "ended with 1 and no recap: Unable",
    ),
    (Evidence(rc=1, error="No inventory was parsed, please"), Outcome.INVENTORY, "No inventory"),
    (Evidence(rc=1, error="x: no vault secrets found."), Outcome.CREDENTIALS, "no vault secrets"),
    (Evidence(rc=0), Outcome.INCOMPLETE, "ended with 0 and no recap"),
    (Evidence(rc=250, error="Unexpected Exception"), Outcome.INCOMPLETE, "250"),
    (Evidence(signal=9), Outcome.INCOMPLETE, "ended by signal 9"),
    (replace(FINE, rc=None, signal=11), Outcome.INCOMPLETE, "ended by signal 11"),
    (replace(FINE, rc=2), Outcome.INCOMPLETE, "although no host failed"),
    (replace(FAILED, rc=250), Outcome.INCOMPLETE, "ended with 250 after its recap"),
    (Evidence(), Outcome.INCOMPLETE, "not started"),
    (replace(FINE, stop="cancel", killed=2), Outcome.CANCELED, "2 processes had to be killed"),
    (replace(FINE, stop="shutdown"), Outcome.CANCELED, "shut down"),
    (replace(FAILED, stop="timeout"), Outcome.TIMEOUT, "time-out"),
    (Evidence(stop="idle"), Outcome.IDLE, "no output"),
    (
        Evidence(stop="waits_for_input", prompt="Go?"),
        Outcome.WAITS_FOR_INPUT,
        "waits for input: Go?",
    ),
    (Evidence(stop="fenced"), Outcome.FENCED, "lease"),
    (Evidence(stop="spool", fault_stage="internal", fault="full"), Outcome.INTERNAL, "full"),
    (Evidence(fault_stage="project", fault="not there"), Outcome.PROJECT, "not there"),
    (Evidence(fault_stage="inventory", fault="not there"), Outcome.INVENTORY, "not there"),
    (Evidence(fault_stage="refused", fault="limit"), Outcome.REFUSED, "limit"),
    (Evidence(fault_stage="node_lost", fault="gone"), Outcome.NODE_LOST, "gone"),
    (replace(FINE, fault_stage="internal", fault="TypeError"), Outcome.INTERNAL, "TypeError"),
]


@pytest.mark.parametrize(("evidence", "outcome", "words"), CASES)
def test_evidence_has_one_outcome(evidence: Evidence, outcome: Outcome, words: str) -> None:
    decided = decide(evidence, STRICT)
    assert decided.outcome == outcome
    assert words in decided.explanation
    assert (decided.explanation == "") == (outcome == Outcome.SUCCESSFUL)


@pytest.mark.parametrize(
    ("evidence", "tolerances", "outcome"),
    [
        (DARK, Tolerances(max_unreachable="1"), Outcome.SUCCESSFUL),
        (DARK, Tolerances(max_unreachable="49%"), Outcome.UNREACHABLE),
        (DARK, Tolerances(max_unreachable="50%"), Outcome.SUCCESSFUL),
        (DARK, Tolerances(max_failed="100%"), Outcome.UNREACHABLE),
        (FAILED, Tolerances(max_failed="1"), Outcome.SUCCESSFUL),
        (FAILED, Tolerances(max_unreachable="100%"), Outcome.FAILED_HOSTS),
        (BOTH, Tolerances(max_failed="1"), Outcome.UNREACHABLE),
        (BOTH, Tolerances(max_failed="1", max_unreachable="1"), Outcome.SUCCESSFUL),
        (FAILED, Tolerances(max_failed="many"), Outcome.FAILED_HOSTS),
        (Evidence(rc=0, stats=recap()), Tolerances(allow_no_hosts=True), Outcome.SUCCESSFUL),
        (
            Evidence(rc=1, error="leaves us with no hosts to target"),
            Tolerances(allow_no_hosts=True),
            Outcome.SUCCESSFUL,
        ),
        (replace(FAILED, rc=250), Tolerances(max_failed="100%"), Outcome.INCOMPLETE),
    ],
)
def test_tolerances_are_the_callers(
    evidence: Evidence, tolerances: Tolerances, outcome: Outcome
) -> None:
    assert decide(evidence, tolerances).outcome == outcome


def test_a_stopped_run_says_what_the_playbook_had_reached() -> None:
    assert decide(replace(FAILED, stop="cancel"), STRICT).playbook_outcome == Outcome.FAILED_HOSTS
    assert decide(Evidence(stop="cancel"), STRICT).playbook_outcome is None
    assert decide(FINE, STRICT).playbook_outcome is None


def test_what_could_not_be_ended_is_said_whatever_the_outcome() -> None:
    words = "1 processes of another account could not be ended"
    assert decide(replace(FINE, survivors=1), STRICT).explanation == words
    assert decide(replace(FINE, stop="cancel", survivors=1), STRICT).explanation.endswith(words)


def test_what_was_left_running_on_hosts_is_said_whatever_the_outcome() -> None:
    left = [{"host": "web1", "job": "j1", "task": "restart"}]
    decided = decide(replace(FINE, detached=left), STRICT)
    words = "1 asynchronous tasks were left running: restart on web1 (job j1)"
    assert (decided.outcome, decided.explanation) == (Outcome.SUCCESSFUL, words)
    stopped = decide(replace(FINE, stop="cancel", detached=left), STRICT)
    assert stopped.explanation.endswith(f"; {words}")


def test_a_host_row_holds_every_count() -> None:
    evidence = played(
        2, ok={"a": 1}, changed={"a": 2}, failures={"a": 3}, skipped={"a": 4}, dark={"b": 1}
    )
    assert host_rows(evidence) == (
        HostRow("a", 1, 2, 3, 0, 4, 0, 0, failed=True),
        HostRow("b", 0, 0, 0, 1, 0, 0, 0, failed=True),
    )


def test_many_failed_hosts_are_named_in_part() -> None:
    evidence = played(2, failures={f"h{n}": 1 for n in range(9)})
    assert decide(evidence, STRICT).explanation.endswith("h0, h1, h2, h3, h4 and 4 more")


_counts = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 3), max_size=5)


@given(failures=_counts, dark=_counts, ok=_counts, failed=st.integers(0, 5), gone=st.integers(0, 5))
def test_success_means_no_more_hosts_than_tolerated(
    failures: dict[str, int], dark: dict[str, int], ok: dict[str, int], failed: int, gone: int
) -> None:
    rc = 2 * any(failures.values()) | 4 * any(dark.values())
    evidence = played(rc, failures=failures, dark=dark, ok=ok)
    tolerances = Tolerances(max_failed=str(failed), max_unreachable=str(gone))
    within = sum(map(bool, failures.values())) <= failed and sum(map(bool, dark.values())) <= gone
    assert (decide(evidence, tolerances).outcome == Outcome.SUCCESSFUL) == within
