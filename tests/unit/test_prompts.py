"""Prompts: which count, in which order, and what is refused."""

from __future__ import annotations

import pytest

from dispatcher.db.tables.templates import PROMPTS
from dispatcher.domain import prompts


def test_every_switch_of_a_template_belongs_to_one_prompt() -> None:
    assert set(prompts.SWITCHES.values()) == set(PROMPTS)


def test_a_later_level_wins_and_variables_are_laid_over_each_other_name_by_name() -> None:
    node = {"limit": "a", "extra_vars": {"x": 1, "y": 1}}
    workflow = {"limit": "b", "extra_vars": {"y": 2}}
    assert prompts.merge(node, workflow) == {"limit": "b", "extra_vars": {"x": 1, "y": 2}}


def test_what_the_template_does_not_ask_for_is_ignored_and_told() -> None:
    template = {"ask_limit_on_launch": True, "ask_forks_on_launch": False}
    taken, ignored = prompts.asked_for({"limit": "a", "forks": 2, "color": 1}, template)
    assert (taken, ignored) == ({"limit": "a", "color": 1}, {"forks": 2})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "@file"),
        ("extra_vars", "a=b"),
        ("extra_vars", {"1x": 2}),
        ("tags", "a,b"),
        ("job_type", "scan"),
        ("verbosity", 6),
        ("diff_mode", "yes"),
        ("inventory", "first"),
        ("inventory", True),
        ("scm_branch", "--upload-pack=x"),
        ("scm_branch", "a..b"),
        ("forks", -1),
        ("job_slice_count", 0),
        ("instance_groups", [1, 1]),
        ("instance_groups", ["default"]),
        ("priority", 10**6),
        ("color", "red"),
    ],
)
def test_a_wrong_prompt_is_named(name: str, value: object) -> None:
    assert list(prompts.problems({name: value})) == [name]


def test_right_prompts_have_no_problem() -> None:
    assert not prompts.problems(
        {"limit": "a:&b", "extra_vars": {"x": [1]}, "inventory": 3, "scm_branch": "feature/x"}
    )
