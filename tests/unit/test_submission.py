"""The body of a launch: RunRequest without what is at its default."""

from __future__ import annotations

from dispatcher.client.submission import request_body
from dispatcher.domain.launch import RunRequest


def test_defaults_are_left_out() -> None:
    request = RunRequest("site.yml", "d" * 64, inventory="h\n")
    assert request_body(request) == {
        "playbook": "site.yml",
        "bundle_digest": "d" * 64,
        "inventory": "h\n",
    }


def test_an_empty_inventory_text_is_sent_for_the_server_to_judge() -> None:
    assert request_body(RunRequest("site.yml", "d" * 64, inventory=""))["inventory"] == ""


def test_tuples_become_lists_and_false_like_values_that_are_no_default_stay() -> None:
    request = RunRequest(
        "site.yml",
        "d" * 64,
        inventory_path="hosts",
        tags=("a", "b"),
        extra_vars={"x": 0},
        check_mode=True,
        forks=10,
        max_failed="10%",
    )
    assert request_body(request) == {
        "playbook": "site.yml",
        "bundle_digest": "d" * 64,
        "inventory_path": "hosts",
        "tags": ["a", "b"],
        "extra_vars": {"x": 0},
        "check_mode": True,
        "forks": 10,
        "max_failed": "10%",
    }
