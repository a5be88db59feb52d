"""Launches of job templates, for the API, schedules, workflow nodes and slices alike.

Set-based: a fixed number of statements for a whole batch, and a wrong launch in it answers its own
error without disturbing the others. No template, project or inventory row is written to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, insert

from dispatcher.actions.idempotency import take_key
from dispatcher.actions.launch_slices import SlicedLaunch, launch_sliced
from dispatcher.actions.launched import Launched
from dispatcher.actions.template_drafts import Draft, find_all_targets, make_drafts
from dispatcher.actions.template_drafts import TemplateLaunch as TemplateLaunch
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import credential_rows, template_rows
from dispatcher.db import tables as t
from dispatcher.db.change import raise_counter
from dispatcher.domain.launch import DEFAULT_FORKS, impact_of
from dispatcher.domain.slices import slice_count
from dispatcher.domain.status import Kind
from dispatcher.errors import DispatcherError
from dispatcher.secrets import Cipher


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
    drafted = list(make_drafts(connection, wanted))
    find_all_targets(connection, drafted)
    answers: list[Launched | DispatcherError | Draft] = [*drafted]
    _slice(connection, answers, ids)
    drafts = [each for each in answers if isinstance(each, Draft)]
    job_ids = list(ids) if ids is not None else template_rows.next_job_ids(connection, len(drafts))
    made = iter(_insert(connection, drafts, job_ids[: len(drafts)]) if drafts else ())
    return [next(made) if isinstance(each, Draft) else each for each in answers]


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


def _slice(
    connection: Connection,
    answers: list[Launched | DispatcherError | Draft],
    ids: Sequence[int] | None,
) -> None:
    """A launch of several slices becomes a workflow job instead of a job."""
    for place, draft in enumerate(answers):
        if not isinstance(draft, Draft) or draft.launch.slice_number:
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


def _insert(
    connection: Connection, drafts: Sequence[Draft], job_ids: Sequence[int]
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
    credential_rows.note_credentials(
        connection, [(job_id, c.id, c.name) for d, job_id in pairs for c in d.credentials]
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


def _job_row(draft: Draft, job_id: int, is_updated: bool) -> dict[str, Any]:
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


def _input_row(draft: Draft, job_id: int) -> dict[str, Any]:
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
