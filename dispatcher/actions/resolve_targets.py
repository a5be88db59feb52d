"""Hosts, impact and locks of pending jobs, found again when their inventory has changed.

docs/protocols.md 3.10: locks carry the revision of the inventory that they were resolved from.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, text

from dispatcher.actions.stored_targets import find_stored_targets
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import job_moves
from dispatcher.db.workflow_touches import touch_workflows_of
from dispatcher.domain.inventory import InventoryError
from dispatcher.domain.launch import Targets, impact_of
from dispatcher.domain.outcome import Outcome
from dispatcher.domain.targets import HostChoice

_PENDING = """
    SELECT job.id, job.inventory_id, host_lock, slice_number, slice_count, limit_pattern,
        job_input.forks, CASE WHEN host_lock <> 'none' THEN extra_vars END AS extra_vars,
        inventory.revision, inventory.host_count
    FROM job JOIN job_input ON job_id = job.id JOIN inventory ON inventory.id = job.inventory_id
    WHERE job.kind = 'playbook' AND job.status = 'pending'
      AND job.inventory_revision IS DISTINCT FROM inventory.revision
"""


def resolve_inventory(connection: Connection, inventory_id: int) -> Owed:
    """Resolve all pending jobs of an inventory again, in the transaction that changed it.

    A job whose limit cannot be resolved any more fails (``refused``); what is owed says so to the
    managers. The caller raises the change counter.
    """
    rows = connection.execute(
        text(f"{_PENDING} AND job.inventory_id = :inventory ORDER BY job.id"),
        {"inventory": inventory_id},
    )
    return _resolve(connection, rows.all())


def resolve_jobs(connection: Connection, job_ids: Collection[int]) -> Owed:
    """Resolve those of the given jobs again that are pending and whose inventory has moved."""
    if not job_ids:
        return Owed()
    rows = connection.execute(
        text(f"{_PENDING} AND job.id = ANY(CAST(:ids AS bigint[])) ORDER BY job.id"),
        {"ids": list(job_ids)},
    )
    return _resolve(connection, rows.all())


def _resolve(connection: Connection, rows: Collection[Any]) -> Owed:
    by_inventory: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        by_inventory[row.inventory_id].append(row)
    refused: dict[int, tuple[Outcome, str]] = {}
    for inventory_id, jobs in by_inventory.items():
        _write(connection, _found(connection, inventory_id, jobs, refused))
    if not refused:
        return Owed()
    ended = job_moves.refuse(connection, refused)
    touched = touch_workflows_of(connection, ended)
    return wake(Manager.TASK, *((Manager.WORKFLOW,) if touched else ()))


def _found(
    connection: Connection,
    inventory_id: int,
    jobs: Collection[Any],
    refused: dict[int, tuple[Outcome, str]],
) -> list[dict[str, Any]]:
    """What each job has now; those that cannot be resolved are put into ``refused``."""
    choices = [_choice(job) for job in jobs]
    found: list[Targets | str] = []
    revision = None
    if wanted := [each for each in choices if each.by_name]:
        try:
            stored = find_stored_targets(connection, inventory_id, wanted)
        except InventoryError as error:
            refused.update({j.id: (Outcome.REFUSED, f"inventory: {error}") for j in jobs})
            return []
        if stored is None:  # deleted since its jobs were read
            return []
        revision, found = stored
    by_name = iter(found)
    rows = []
    for job, choice in zip(jobs, choices, strict=True):
        targets = next(by_name) if choice.by_name else Targets(job.host_count, ())
        if isinstance(targets, str):
            refused[job.id] = (Outcome.REFUSED, f"limit: {targets}")
            continue
        rows.append(
            {
                "id": job.id,
                "impact": impact_of(job.forks, targets.count),
                "keys": list(targets.lock_keys),
                "revision": job.revision if revision is None else revision,
            }
        )
    return rows


def _choice(job: Any) -> HostChoice:
    return HostChoice(
        job.limit_pattern, job.host_lock, job.extra_vars or {}, job.slice_number, job.slice_count
    )


def _write(connection: Connection, found: list[dict[str, Any]]) -> None:
    if not found:
        return
    connection.execute(
        text(
            """
            UPDATE job SET task_impact = v.impact, inventory_revision = v.revision,
                lock_keys = ARRAY(SELECT jsonb_array_elements_text(v.keys))
            FROM jsonb_to_recordset(CAST(:rows AS jsonb))
                AS v(id bigint, impact integer, keys jsonb, revision bigint)
            WHERE job.id = v.id AND job.status = 'pending'
            """
        ),
        {"rows": json.dumps(found)},
    )
