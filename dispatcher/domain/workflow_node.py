"""A node of a workflow as it is saved, and what can be wrong with it by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dispatcher.domain import launch_checks as check
from dispatcher.domain import prompts as prompting

#: What a node spawns → its table; an approval has none.
TEMPLATE_TABLES: Final = {
    "job_template": "job_template",
    "workflow_job_template": "workflow_job_template",
    "project": "project",
    "inventory_source": "inventory_source",
}
#: Seconds; a year.
LONGEST_APPROVAL: Final = 366 * 86_400
EdgeSpec = tuple[str, str, str]


@dataclass(frozen=True)
class NodeSpec:
    """A node as it is to be saved.

    Attributes:
        identifier: unique in its workflow; edges name it.
        spawns: ``job_template``, ``workflow_job_template``, ``project``, ``inventory_source`` or
            ``approval``.
        template_id: what is spawned; None for approvals.
        prompts: what the spawned job is launched with.
        approval_timeout: seconds; 0: it waits for ever.
    """

    identifier: str
    spawns: str = "job_template"
    template_id: int | None = None
    all_parents_must_converge: bool = False
    prompts: Mapping[str, Any] = field(default_factory=dict)
    approval_name: str = ""
    approval_timeout: int = 0


def node_problems(node: NodeSpec, *, unfinished: bool = False) -> dict[str, list[str]]:
    """What is wrong with a node by itself, by field; prompts by their own names."""
    found: dict[str, list[str | None]] = {
        "identifier": [check.line_problem(node.identifier, check.LONGEST_NAME)],
        "approval_timeout": [check.number_problem(node.approval_timeout, 0, LONGEST_APPROVAL)],
    }
    if isinstance(node.identifier, str) and not node.identifier.strip():
        found["identifier"].append("needs an identifier")
    if node.spawns == "approval":
        found["template_id"] = [
            "an approval has no template" if node.template_id is not None else None
        ]
        found["approval_name"] = [
            "an approval needs a name" if not node.approval_name.strip() else None,
            check.line_problem(node.approval_name, check.LONGEST_NAME),
        ]
    elif node.spawns not in TEMPLATE_TABLES:
        words = ", ".join((*TEMPLATE_TABLES, "approval"))
        found["spawns"] = [f"cannot spawn {node.spawns!r}; {words}"]
    else:
        missing = node.template_id is None
        found["template_id"] = [
            f"needs the id of its {node.spawns}" if missing and not unfinished else None,
            None if missing else check.number_problem(node.template_id, 1, 2**63 - 1),
        ]
        found["approval_name"] = [
            "only an approval has an approval name" if node.approval_name else None
        ]
    wrong = {name: [p for p in words if p] for name, words in found.items()}
    for name, prompt_words in prompting.problems(node.prompts).items():
        wrong.setdefault(name, []).extend(prompt_words)
    return {name: words for name, words in wrong.items() if words}
