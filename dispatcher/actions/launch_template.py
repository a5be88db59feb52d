"""Launches of job templates, for the API, schedules, workflow nodes and slices alike.

Set-based: a fixed number of statements for a whole batch, and a wrong launch in it answers its own
error without disturbing the others. No template, project or inventory row is written to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, insert

from dispatcher import clock
from dispatcher.actions.idempotency import take_key
from dispatcher.actions.launch_slices import SlicedLaunch, launch_sliced
from dispatcher.actions.launched import Launched
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import tables as t
from dispatcher.db import template_rows
from dispatcher.db.change import raise_counter
from dispatcher.db.stored_inventory import StoredInventory, read_inventory
from dispatcher.domain import prompts as prompting
from dispatcher.domain.host_pattern import PatternError
from dispatcher.domain.inventory import InventoryError
from dispatcher.domain.launch import DEFAULT_FORKS, Targets, impact_of
from dispatcher.domain.slices import slice_count
from dispatcher.domain.status import Kind
from dispatcher.domain.targets import effective_lock, find_targets, needs_hosts
from dispatcher.errors import DispatcherError, InvalidRequest, NotFound
from dispatcher.secrets import Cipher


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


@dataclass
class _Draft:
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
    targets: Targets = field(default_factory=lambda: Targets(None, ()))
    revision: int = 0

    @property
    def check_mode(self) -> bool:
        return bool(self.effective["job_type"] == "check")

    @property
    def host_lock(self) -> str:
        return effective_lock(self.template["host_lock"], check_mode=self.check_mode)


def launch_job_template(
    connection: Connection,
    template_id: int,
    prompts: Mapping[str, Any],
    *,
    principal: str,
    launch_type: str = "manual",
    workflow_node_id: int | None = None,
    schedule_id: int | None = None,
    idempotency_key: str | None = None,
    uuid: UUID | None = None,
    cipher: Cipher,
) -> Launched:
    """Launch one job template.

    Raises:
        NotFound: there is no such template.
        InvalidRequest: prompts that are wrong, by name; or what the template lacks.
        Conflict: ``key_reused`` or ``in_progress``, as :func:`launch_run` says.
    """
    if idempotency_key is not None:
        earlier = _earlier(connection, template_id, prompts, principal, idempotency_key)
        if isinstance(earlier, Launched):
            return earlier
    else:
        earlier = None
    launch = TemplateLaunch(
        template_id, prompts, principal, launch_type,
        workflow_node_id=workflow_node_id, schedule_id=schedule_id, uuid=uuid,
    )  # fmt: skip
    ids = None if earlier is None else [earlier]
    found = _launch(connection, [launch], cipher=cipher, ids=ids)[0]
    if isinstance(found, DispatcherError):
        raise found
    raise_counter(connection)
    return found


def launch_job_templates(
    connection: Connection, wanted: Sequence[TemplateLaunch], *, cipher: Cipher | None = None
) -> list[Launched | DispatcherError]:
    """Launch a batch; the answers are in the same order.

    The caller raises the change counter itself, as the last statement of its transaction.

    Returns:
        For each its job, or why there is none.
    """
    return _launch(connection, wanted, cipher=cipher, ids=None)


def _launch(
    connection: Connection,
    wanted: Sequence[TemplateLaunch],
    *,
    cipher: Cipher | None,
    ids: Sequence[int] | None,
) -> list[Launched | DispatcherError]:
    answers: list[Launched | DispatcherError | _Draft] = list(_drafts(connection, wanted))
    _find_targets(connection, answers)
    _slice(connection, answers, ids)
    drafts = [each for each in answers if isinstance(each, _Draft)]
    job_ids = list(ids) if ids is not None else template_rows.next_job_ids(connection, len(drafts))
    made = iter(_insert(connection, drafts, job_ids[: len(drafts)]) if drafts else ())
    return [next(made) if isinstance(each, _Draft) else each for each in answers]


def _earlier(
    connection: Connection,
    template_id: int,
    prompts: Mapping[str, Any],
    principal: str,
    key: str,
) -> Launched | int:
    """The job that the key made before; or the id that the job to be made is to have."""
    canonical = json.dumps([template_id, prompts], sort_keys=True, default=str).encode()
    job_id = template_rows.next_job_ids(connection, 1)[0]
    earlier = take_key(
        connection,
        principal=principal,
        route="job_templates",
        key=key,
        digests=[hashlib.sha256(canonical).digest()],
        job_id=job_id,
    )
    if earlier is None:
        return job_id
    return Launched(earlier.job_id, earlier.uuid, False, Owed())


# -- what is to be run


def _drafts(
    connection: Connection, wanted: Sequence[TemplateLaunch]
) -> Iterable[_Draft | DispatcherError]:
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
    for launch, parts in laid:
        if isinstance(parts, DispatcherError):
            yield parts
        else:
            template, effective, taken, ignored = parts
            yield _draft(launch, template, effective, taken, ignored, projects, inventories, groups)


def _lay_over(launch: TemplateLaunch, template: Mapping[str, Any] | None) -> Any:
    """(template, effective values, prompts that count, ignored ones), or what is wrong."""
    if template is None:
        return NotFound(f"there is no job template {launch.template_id}")
    taken, ignored = prompting.asked_for(launch.prompts, template)
    wrong = prompting.problems(taken)
    if wrong:
        return InvalidRequest(wrong)
    of_template = {name: template[_COLUMNS.get(name, name)] for name in prompting.SWITCHES}
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
) -> _Draft | DispatcherError:
    wrong = {}
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
    return _Draft(
        launch,
        template,
        effective,
        taken,
        ignored,
        project,
        inventory,
        branch=effective["scm_branch"] or project.scm_branch,
        groups=_preferred(template, effective, groups),
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


def _slice(
    connection: Connection,
    answers: list[Launched | DispatcherError | _Draft],
    ids: Sequence[int] | None,
) -> None:
    """A launch of several slices becomes a workflow job instead of a job."""
    for place, draft in enumerate(answers):
        if not isinstance(draft, _Draft) or draft.launch.slice_number:
            continue
        slices = slice_count(draft.effective["job_slice_count"], draft.targets.count)
        if slices < 2:
            continue
        template, launch = draft.template, draft.launch
        made = launch_sliced(
            connection,
            SlicedLaunch(
                template_id=template["id"],
                name=template["name"],
                organization_id=template["organization_id"],
                slices=slices,
                principal=launch.principal,
                launch_type=launch.launch_type,
                prompts=draft.taken,
                variables=launch.variables,
                allow_simultaneous=template["allow_simultaneous"],
                priority=draft.effective["priority"],
                uuid=launch.uuid or uuid4(),
                job_id=ids[0] if ids else None,
            ),
        )
        answers[place] = replace(made, ignored_fields=draft.ignored)


# -- hosts


def _find_targets(
    connection: Connection, answers: list[Launched | DispatcherError | _Draft]
) -> None:
    """Hosts, impact and locks of each draft; one whose hosts cannot be found becomes an error."""
    stored: dict[tuple[int, bool], StoredInventory | DispatcherError] = {}
    for place, draft in enumerate(answers):
        if not isinstance(draft, _Draft):
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


# -- rows


def _insert(
    connection: Connection, drafts: Sequence[_Draft], job_ids: Sequence[int]
) -> list[Launched]:
    updated = template_rows.updated_branches(connection, {(d.project.id, d.branch) for d in drafts})
    rows = [
        _job_row(draft, job_id, (draft.project.id, draft.branch) in updated)
        for draft, job_id in zip(drafts, job_ids, strict=True)
    ]
    connection.execute(insert(t.job), rows)
    pairs = list(zip(drafts, job_ids, strict=True))
    connection.execute(insert(t.job_input), [_input_row(d, job_id) for d, job_id in pairs])
    connection.execute(
        insert(t.job_project),
        [template_rows.project_row(d.project, d.branch, job_id) for d, job_id in pairs],
    )
    return [
        Launched(
            row["id"],
            row["uuid"],
            True,
            wake(Manager.TASK if row["dependencies_processed"] else Manager.DEPENDENCY),
            draft.ignored,
        )
        for draft, row in zip(drafts, rows, strict=True)
    ]


def _job_row(draft: _Draft, job_id: int, is_updated: bool) -> dict[str, Any]:
    template, effective, launch = draft.template, draft.effective, draft.launch
    return {
        "id": job_id,
        "uuid": launch.uuid or uuid4(),
        "kind": Kind.PLAYBOOK,
        "name": template["name"],
        "organization_id": template["organization_id"],
        "launch_type": launch.launch_type,
        "launched_by": launch.principal,
        "priority": effective["priority"],
        "task_impact": impact_of(effective["forks"], draft.targets.count),
        "forks": effective["forks"] or DEFAULT_FORKS,
        "preferred_groups": draft.groups,
        # nothing to wait for: content is there, and nothing is to be renewed
        "dependencies_processed": is_updated
        and not draft.project.update_on_launch
        and not draft.inventory.updates_on_launch,
        "host_lock": draft.host_lock,
        "lock_keys": list(draft.targets.lock_keys),
        "job_template_id": template["id"],
        "project_id": draft.project.id,
        "inventory_id": draft.inventory.id,
        "inventory_revision": draft.revision,
        # slices of one launch run side by side
        "allow_simultaneous": template["allow_simultaneous"] or launch.slice_number > 0,
        "retries_left": template["retries_on_node_loss"],
        "slice_number": launch.slice_number,
        "slice_count": launch.slice_count,
    }


def _input_row(draft: _Draft, job_id: int) -> dict[str, Any]:
    effective = draft.effective
    return {
        "job_id": job_id,
        "playbook": draft.template["playbook"],
        "limit_pattern": effective["limit"],
        "extra_vars": effective["extra_vars"],
        "tags": list(effective["tags"]),
        "skip_tags": list(effective["skip_tags"]),
        "check_mode": draft.check_mode,
        "diff_mode": effective["diff_mode"],
        "verbosity": effective["verbosity"],
        "forks": effective["forks"],
        "timeout": effective["timeout"],
    }
