"""Reasons: one set of codes in code and documentation, and sentences that people can read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from schedulers.core.decision import Reason
from schedulers.core.reasons import CODES, cause, words

PAGE = (Path(__file__).parents[2] / "docs" / "scheduling.md").read_text(encoding="utf-8")

HELD = {"jobs": [3, 4], "jobs_total": 2, "reserved_for": None}
ONE = {"jobs": [3], "jobs_total": 1, "reserved_for": None}
FULL = {"group": "default", "needed": 6, "free": 2, "largest": 16}
LIMIT = {"group": "default", "limit": "max_forks", "allowed": 20, "used": 15, "needed": 6}
HOSTS = ["host:10.0.0.1:22", "host:10.0.0.2:22", "host:10.0.0.3:22"]
#: The data behind the sentences on the page.
EXAMPLES = {
    "dependency": {"jobs": [3, 4], "jobs_total": 2},
    "host_lock": {
        "jobs": [3, 4],
        "jobs_total": 4,
        "ahead": [7],
        "cooling": [5],
        "keys": HOSTS,
        "keys_total": 7,
    },
    "project_update": {"project": 7, "jobs": [3], "ahead": []},
    "source_update": {"source": 5, "jobs": [3], "ahead": []},
    "inventory_update": {"inventory": 6, "jobs": [3, 4], "ahead": []},
    "same_template": {"template": 8, "jobs": [3], "ahead": [7]},
    "same_workflow_template": {"workflow_template": 9, "jobs": [3], "ahead": []},
    "paused": {"scope": "group", "name": "dmz", "why": "disk is full"},
    "tenant_limit": {"tenant": "Ops", "allowed": 2, "used": 2} | HELD,
    "template_limit": {"template": 8, "allowed": 1, "used": 1} | ONE,
    "exclusive_kind": {"kind": "cleanup", "jobs": [3], "ahead": []},
    "no_capacity": FULL | HELD,
    "node_limit": {"group": "default", "nodes": 2} | ONE,
    "group_limit": LIMIT | ONE | {"reserved_for": 9},
    "all_drained": {"groups": ["default"], "nodes": 2},
    "no_nodes_online": {"groups": ["default", "dmz"]},
    "start_limit": {"limit": 100},
    "returned": {"node": "n1", "why": "not_claimed"},
    "unprocessed": {},
    "quarantined": {"until": "2026-01-31T12:00:30+00:00", "strikes": 2},
    "approval": {"until": "2026-01-31T12:00:00+00:00"},
}


def rows(columns: int) -> list[tuple[str, ...]]:
    """The cells of the tables about reasons that have so many columns."""
    section = PAGE.partition("## 6. Why a job is pending")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    cells = [tuple(cell.strip() for cell in line.strip("| ").split(" | ")) for line in lines]
    return [row for row in cells if len(row) == columns]


def test_the_page_lists_every_code_with_its_data():
    documented = {code.strip("`"): tuple(re.findall(r"`(\w+)`", data)) for code, _, data in rows(3)}
    assert documented == CODES


def test_the_page_shows_the_words_of_every_code():
    shown = {code.strip("`"): sentence for code, sentence in rows(2)}
    assert shown == {code: words(code, EXAMPLES[code]) for code in CODES}


def test_every_example_has_the_data_of_its_code():
    assert {code: tuple(data) for code, data in EXAMPLES.items()} == CODES


@pytest.mark.parametrize(
    ("code", "data", "sentence"),
    [
        ("dependency", {"jobs": [3], "jobs_total": 1}, "Waits for job 3, on which it depends."),
        (
            "dependency",
            {"jobs": [3], "jobs_total": 9},
            "Waits for jobs 3 and 8 more, on which it depends.",
        ),
        (
            "host_lock",
            {"jobs": [], "jobs_total": 0, "ahead": [7, 8]}
            | {"keys": ["host:a:22", "inventory:5e88"], "keys_total": 2},
            "Waits for the locks on a:22, the whole inventory: jobs 7 and 8 wait longer.",
        ),
        (
            "no_capacity",
            FULL | HELD | {"needed": 50},
            "Needs 50 of capacity and the largest node of group default has 16: runs alone on the"
            " largest idle node, and none is idle; the rest is held by jobs 3 and 4.",
        ),
        (
            "no_capacity",
            FULL | {"jobs": [], "jobs_total": 0, "reserved_for": 9},
            "Needs 6 of capacity in group default; the freest node has 2 free; kept for job 9,"
            " which waits longest.",
        ),
        (
            "node_limit",
            {"group": "default", "nodes": 1} | ONE,
            "In group default, the only node runs as many jobs as it may; held by job 3.",
        ),
        (
            "group_limit",
            LIMIT | ONE | {"needed": 21},
            "Needs 21, more than max_forks of group default ever allows (20).",
        ),
        ("paused", {"scope": "all", "name": "", "why": ""}, "Everything is paused."),
        (
            "paused",
            {"scope": "tenant", "name": "Ops", "why": "audit."},
            "Organization Ops is paused: audit.",
        ),
        (
            "all_drained",
            {"groups": ["default"], "nodes": 1},
            "The only node online in group default is disabled, draining, not accepting jobs or"
            " without capacity.",
        ),
        (
            "no_nodes_online",
            {"groups": []},
            "None of the job's instance groups exists any more.",
        ),
        (
            "returned",
            {"node": "n1", "why": "disk is full"},
            "Taken back from node n1: disk is full.",
        ),
    ],
)
def test_words_follow_the_numbers(code, data, sentence):
    assert words(code, data) == sentence


def test_what_fits_exactly_is_neither_oversized_nor_impossible():
    assert "alone" not in words("no_capacity", FULL | HELD | {"needed": 16})
    assert "ever" not in words("group_limit", LIMIT | ONE | {"needed": 20})


@pytest.mark.parametrize("why", ["lost", "suspect", "left", "removed"])
def test_what_became_of_a_node_is_said_in_words(why):
    assert words("returned", {"node": "n1", "why": why}).startswith(
        "Taken back from node n1: the node "
    )


@pytest.mark.parametrize(
    ("code", "data"),
    [
        ("from_the_future", {}),
        ("no_capacity", {}),
        ("dependency", {"jobs": [], "jobs_total": 0}),
        ("host_lock", EXAMPLES["host_lock"] | {"keys": [7]}),
        ("node_limit", EXAMPLES["node_limit"] | {"jobs": 7}),
    ],
)
def test_a_reason_of_another_release_shows_its_code(code, data):
    assert words(code, data) == f"Waits: {code}."


def test_a_cause_leaves_the_numbers_out():
    full = Reason("no_capacity", FULL | HELD)
    assert cause(full) == cause(Reason("no_capacity", FULL | ONE | {"free": 1}))
    assert cause(full) != cause(Reason("no_capacity", FULL | HELD | {"group": "dmz"}))
    assert cause(full) != cause(Reason("node_limit", full.data))
    limit = Reason("group_limit", LIMIT | HELD)
    assert cause(limit) != cause(
        Reason("group_limit", LIMIT | HELD | {"limit": "max_concurrent_jobs"})
    )


def test_examples_survive_being_stored_as_json():
    for code, data in EXAMPLES.items():
        assert words(code, json.loads(json.dumps(data))) == words(code, data)
