"""Hosts, impact and locks of pending jobs, found again when their inventory has changed.

docs/protocols.md 3.10: locks carry the revision of the inventory that they were resolved from.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, text

from dispatcher import clock
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import job_moves
from dispatcher.db.stored_inventory import read_inventory
from dispatcher.db.workflow_touches import touch_workflows_of
from dispatcher.domain.host_pattern import PatternError
from dispatcher.domain.inventory import InventoryError
from dispatcher.domain.launch import Targets, impact_of
from dispatcher.domain.outcome import Outcome
from dispatcher.domain.targets import find_targets, needs_hosts

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
    stored = None
    if any(needs_hosts(j.limit_pattern, j.host_lock, j.slice_number) for j in jobs):
        try:
            stored = read_inventory(
                connection, inventory_id, variables=any(j.host_lock != "none" for j in jobs)
            )
        except InventoryError as error:
            refused.update({j.id: (Outcome.REFUSED, f"inventory: {error}") for j in jobs})
            return []
    found = []
    known: dict[Any, Targets | str] = {}
    for job in jobs:
        key: tuple[Any, ...] = (job.limit_pattern, job.host_lock, job.slice_number)
        key += (job.slice_count, json.dumps(job.extra_vars))
        if key not in known:
            known[key] = _targets(job, stored)
        targets = known[key]
        if isinstance(targets, str):
            refused[job.id] = (Outcome.REFUSED, f"limit: {targets}")
            continue
        revision = job.revision if stored is None else stored.revision
        found.append(
            {
                "id": job.id,
                "impact": impact_of(job.forks, targets.count),
                "keys": list(targets.lock_keys),
                "revision": revision,
            }
        )
    return found


def _targets(job: Any, stored: Any) -> Targets | str:
    if not needs_hosts(job.limit_pattern, job.host_lock, job.slice_number):
        return Targets(job.host_count, ())
    try:
        return find_targets(
            stored.id,
            stored.inventory,
            stored.addresses,
            limit=job.limit_pattern,
            host_lock=job.host_lock,
            extra_vars=job.extra_vars or {},
            slice_number=job.slice_number,
            slice_count=job.slice_count,
            cpu=clock.thread_cpu,
        )
    except PatternError as error:
        return str(error)


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
