"""A launch under way: a template with prompts and variables laid over it, checked, its hosts found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from dispatcher import clock
from dispatcher.db import credential_rows, template_rows
from dispatcher.db.stored_inventory import StoredInventory, read_inventory
from dispatcher.domain import prompts as prompting
from dispatcher.domain.host_pattern import PatternError
from dispatcher.domain.inventory import InventoryError
from dispatcher.domain.launch import Targets
from dispatcher.domain.targets import effective_lock, find_targets, needs_hosts
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
    stored: dict[tuple[int, bool], StoredInventory | DispatcherError] = {}
    for place, draft in enumerate(answers):
        if not isinstance(draft, Draft):
            continue
        limit, number = draft.effective["limit"], draft.launch.slice_number
        if not needs_hosts(limit, draft.host_lock, number):
            draft.targets = Targets(draft.inventory.host_count, ())
            continue
        wanted = (draft.inventory.id, draft.host_lock != "none")
        if wanted not in stored:
            stored[wanted] = _read(connection, *wanted)
        inventory = stored[wanted]
        if isinstance(inventory, DispatcherError):
            answers[place] = inventory
            continue
        draft.revision = inventory.revision
        try:
            draft.targets = find_targets(
                inventory.id,
                inventory.inventory,
                inventory.addresses,
                limit=limit,
                host_lock=draft.host_lock,
                extra_vars=draft.effective["extra_vars"],
                slice_number=number,
                slice_count=draft.launch.slice_count,
                cpu=clock.thread_cpu,
            )
        except PatternError as error:
            answers[place] = InvalidRequest({"limit": str(error)})


def _read(
    connection: Connection, inventory_id: int, variables: bool
) -> StoredInventory | DispatcherError:
    try:
        found = read_inventory(connection, inventory_id, variables=variables)
    except InventoryError as error:
        return InvalidRequest({"inventory": str(error)})
    return found or InvalidRequest({"inventory": f"there is no inventory {inventory_id}"})
