"""A launch under way: a template with prompts and variables laid over it, checked, its hosts found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from dispatcher.actions.stored_targets import find_stored_targets
from dispatcher.db import credential_rows, template_rows
from dispatcher.domain import prompts as prompting
from dispatcher.domain.inventory import InventoryError
from dispatcher.domain.launch import Targets
from dispatcher.domain.targets import HostChoice, effective_lock
from dispatcher.errors import DispatcherError, InvalidRequest, NotFound


@dataclass(frozen=True)
class TemplateLaunch:
    """One launch of a job template.

    Attributes:
        prompts: as a caller gives them (:mod:`dispatcher.domain.prompts`); those that the template
            does not ask for are ignored.
        principal: shown as ``launched_by``.
        launch_type: a word: ``manual``, ``schedule``, ``workflow`` …
        variables: put over all extra variables, whether the template asks for variables or not.
        workflow_node_id, schedule_id: what launches it; for the caller's own use.
        slice_number: 0: not a slice; else from 1.
        slice_count: of how many slices this is one.
        uuid: of the job; None: a new one.
        exact: the prompts are all that counts, asked for or not, and replace variables as a whole:
            a job that is launched again.
    """

    template_id: int
    prompts: Mapping[str, Any]
    principal: str
    launch_type: str = "manual"
    variables: Mapping[str, Any] = field(default_factory=dict)
    workflow_node_id: int | None = None
    schedule_id: int | None = None
    slice_number: int = 0
    slice_count: int = 1
    uuid: UUID | None = None
    exact: bool = False


@dataclass
class Draft:
    """A launch under way: the template with its prompts laid over it."""

    launch: TemplateLaunch
    template: Mapping[str, Any]
    effective: dict[str, Any]
    taken: dict[str, Any]
    ignored: dict[str, Any]
    project: template_rows.Project
    inventory: template_rows.StoredInventoryHead
    branch: str
    groups: list[int]
    credentials: list[credential_rows.CredentialHead]
    targets: Targets = field(default_factory=lambda: Targets(None, ()))
    revision: int = 0

    @property
    def check_mode(self) -> bool:
        """Whether nothing is to be changed."""
        return bool(self.effective["job_type"] == "check")

    @property
    def host_lock(self) -> str:
        """The lock that is taken."""
        return effective_lock(self.template["host_lock"], check_mode=self.check_mode)

    @property
    def choice(self) -> HostChoice:
        """What says which hosts it works on."""
        return HostChoice(
            self.effective["limit"],
            self.host_lock,
            self.effective["extra_vars"],
            self.launch.slice_number,
            self.launch.slice_count,
        )


def make_drafts(
    connection: Connection, wanted: Sequence[TemplateLaunch]
) -> Iterator[Draft | DispatcherError]:
    """For each launch, in order, its draft, or what is wrong with it; five statements at most."""
    templates = template_rows.read_templates(connection, {w.template_id for w in wanted})
    laid: list[tuple[TemplateLaunch, Any]] = [
        (launch, _lay_over(launch, templates.get(launch.template_id))) for launch in wanted
    ]
    good = [parts for _, parts in laid if not isinstance(parts, DispatcherError)]
    projects = template_rows.read_projects(
        connection, {tp["project_id"] for tp, *_ in good if tp["project_id"] is not None}
    )
    inventories = template_rows.read_inventory_heads(
        connection, {e["inventory"] for _, e, *_ in good if e["inventory"] is not None}
    )
    groups = template_rows.read_group_names(connection)
    heads = credential_rows.read_heads(
        connection, {i for _, e, *_ in good for i in e["credentials"]}
    )
    for launch, parts in laid:
        if isinstance(parts, DispatcherError):
            yield parts
        else:
            template, effective, taken, ignored = parts
            yield _draft(
                launch, template, effective, taken, ignored, projects, inventories, groups, heads
            )


def _lay_over(launch: TemplateLaunch, template: Mapping[str, Any] | None) -> Any:
    """(template, effective values, prompts that count, ignored ones), or what is wrong."""
    if template is None:
        return NotFound(f"there is no job template {launch.template_id}")
    taken, ignored = prompting.asked_for(launch.prompts, template)
    if launch.exact:
        taken, ignored = dict(launch.prompts), {}
    wrong = prompting.problems(taken)
    if wrong:
        return InvalidRequest(wrong)
    of_template = {name: template[_COLUMNS.get(name, name)] for name in prompting.SWITCHES}
    if launch.exact:
        of_template["extra_vars"] = {}
    effective = prompting.merge(of_template, taken, {"extra_vars": dict(launch.variables)})
    wrong = prompting.problems({"extra_vars": effective["extra_vars"]})
    return InvalidRequest(wrong) if wrong else (template, effective, taken, ignored)


_COLUMNS = {"limit": "limit_pattern", "inventory": "inventory_id"}


def _draft(
    launch: TemplateLaunch,
    template: Mapping[str, Any],
    effective: dict[str, Any],
    taken: dict[str, Any],
    ignored: dict[str, Any],
    projects: Mapping[int, template_rows.Project],
    inventories: Mapping[int, template_rows.StoredInventoryHead],
    groups: Mapping[int, str],
    heads: Mapping[int, credential_rows.CredentialHead],
) -> Draft | DispatcherError:
    wrong = {}
    misfit = credential_rows.chosen_problem(heads, effective["credentials"])
    if misfit:
        wrong["credentials"] = misfit
    project = projects.get(template["project_id"])
    if project is None:
        wrong["project"] = "the template has no project"
    inventory = inventories.get(effective["inventory"])
    if inventory is None and effective["inventory"] is None:
        wrong["inventory"] = "the template has no inventory, and none was given"
    elif inventory is None:
        wrong["inventory"] = f"there is no inventory {effective['inventory']}"
    strangers = [g for g in effective["instance_groups"] if g not in groups]
    if strangers and effective["instance_groups"] is not template["instance_groups"]:
        wrong["instance_groups"] = f"there is no instance group {strangers[0]}"
    if wrong or project is None or inventory is None:
        return InvalidRequest(wrong)
    return Draft(
        launch,
        template,
        effective,
        taken,
        ignored,
        project,
        inventory,
        branch=effective["scm_branch"] or project.scm_branch,
        groups=_preferred(template, effective, groups),
        credentials=[heads[each] for each in effective["credentials"]],
        revision=inventory.revision,
    )


def _preferred(
    template: Mapping[str, Any], effective: Mapping[str, Any], groups: Mapping[int, str]
) -> list[int]:
    """Groups in order: the launch's own and no other; else template's, organization's, default."""
    wanted = list(effective["instance_groups"])
    if effective["instance_groups"] is template["instance_groups"]:
        wanted += template["organization_groups"]
    known = [each for each in dict.fromkeys(wanted) if each in groups]
    return known or [each for each, name in groups.items() if name == "default"]


def find_all_targets(connection: Connection, answers: list[DispatcherError | Draft]) -> None:
    """Hosts, impact and locks of each draft; one whose hosts cannot be found becomes an error."""
    by_inventory: dict[int, list[tuple[int, Draft]]] = defaultdict(list)
    for place, draft in enumerate(answers):
        if isinstance(draft, Draft):
            draft.targets = Targets(draft.inventory.host_count, ())
            if draft.choice.by_name:
                by_inventory[draft.inventory.id].append((place, draft))
    for inventory_id, placed in by_inventory.items():
        try:
            choices = [draft.choice for _, draft in placed]
            stored = find_stored_targets(connection, inventory_id, choices)
            wrong = f"there is no inventory {inventory_id}"
        except InventoryError as error:
            stored, wrong = None, str(error)
        if stored is None:
            for place, _ in placed:
                answers[place] = InvalidRequest({"inventory": wrong})
            continue
        revision, found = stored
        for (place, draft), targets in zip(placed, found, strict=True):
            if isinstance(targets, str):
                answers[place] = InvalidRequest({"limit": targets})
            else:
                draft.revision, draft.targets = revision, targets
