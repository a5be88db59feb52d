"""Prompts: what a launch may change of a template, in which order, and what is refused.

A prompt counts only where the template asks for it (``ask_<name>_on_launch``); what it does not ask
for is ignored, and the caller is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dispatcher.domain import launch_checks as check
from dispatcher.domain.text import shown

MOST_SLICES: Final = 1000
_Rule = Callable[[Any], str | list[str] | None]


def _id_problem(value: object) -> str | None:
    return check.number_problem(value, 1, 2**63 - 1) and "an id is required"


def ids_problem(value: object) -> str | None:
    """Ids in order, none twice."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return "a list of ids is required"
    if any(_id_problem(each) for each in value):
        return "a list of ids is required"
    if len(value) > check.MOST_GROUPS:
        return f"at most {check.MOST_GROUPS} ids"
    return "an id is given twice" if len(set(value)) < len(value) else None


#: Prompt → what the template's switch is called, ``ask_<…>_on_launch``.
SWITCHES: Final[Mapping[str, str]] = {
    "extra_vars": "variables",
    "limit": "limit",
    "tags": "tags",
    "skip_tags": "skip_tags",
    "job_type": "job_type",
    "verbosity": "verbosity",
    "diff_mode": "diff_mode",
    "inventory": "inventory",
    "scm_branch": "scm_branch",
    "forks": "forks",
    "timeout": "timeout",
    "job_slice_count": "job_slice_count",
    "instance_groups": "instance_groups",
    "priority": "priority",
    "credentials": "credential",
}

RULES: Final[Mapping[str, _Rule]] = {
    "extra_vars": check.variables_problems,
    "limit": check.limit_problem,
    "tags": check.tags_problem,
    "skip_tags": check.tags_problem,
    "job_type": lambda v: check.word_problem(v, ("run", "check")),
    "verbosity": lambda v: check.number_problem(v, 0, 5),
    "diff_mode": check.flag_problem,
    "inventory": _id_problem,
    "scm_branch": lambda v: branch_problem(v),
    "forks": lambda v: check.number_problem(v, 0, check.MOST_FORKS),
    "timeout": lambda v: check.number_problem(v, 0, check.LONGEST_TIMEOUT),
    "job_slice_count": lambda v: check.number_problem(v, 1, MOST_SLICES),
    "instance_groups": ids_problem,
    "priority": lambda v: check.number_problem(v, -check.HIGHEST_PRIORITY, check.HIGHEST_PRIORITY),
    "credentials": ids_problem,
}


def branch_problem(branch: object) -> str | None:
    """A branch, tag or commit, possibly empty, that git cannot take for an option or a pattern."""
    problem = check.line_problem(branch, check.LONGEST_NAME)
    if problem is not None:
        return problem
    text = str(branch)
    if text.startswith("-"):
        return "must not start with '-'"
    if ".." in text or "@{" in text or any(c in " ~^:?*[\\" for c in text):
        return "not the name of a branch, tag or commit"
    return None


def problems(prompts: Mapping[str, Any]) -> dict[str, list[str]]:
    """What is wrong with prompts, by name; empty when nothing is."""
    wrong: dict[str, list[str]] = {}
    for name, value in prompts.items():
        rule = RULES.get(name)
        found = rule(value) if rule is not None else f"there is no prompt {shown(name)}"
        if found:
            wrong[name] = [found] if isinstance(found, str) else found
    return wrong


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Prompts of several levels, low to high: a later one wins, ``extra_vars`` name by name."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            if name == "extra_vars" and isinstance(value, Mapping):
                merged[name] = {**merged.get(name, {}), **value}
            else:
                merged[name] = value
    return merged


def asked_for(
    prompts: Mapping[str, Any], template: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Which prompts count.

    Args:
        template: has ``ask_<name>_on_launch`` for each switch; one that is missing is off.

    Returns:
        Those that the template asks for, and those that are ignored. A name that is no prompt at
        all is among the former, for :func:`problems` to refuse.
    """
    taken: dict[str, Any] = {}
    ignored: dict[str, Any] = {}
    for name, value in prompts.items():
        switch = SWITCHES.get(name)
        counts = switch is None or template.get(f"ask_{switch}_on_launch", False)
        (taken if counts else ignored)[name] = value
    return taken, ignored
