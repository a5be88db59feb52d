"""Launches the updates that a window's jobs need: each one once, whoever needs it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, insert

from dispatcher.actions.launch_update import (
    InventoryUpdate,
    ProjectUpdate,
    launch_inventory_updates,
    launch_project_updates,
)
from dispatcher.db import tables as t
from schedulers.core.decision import (
    LinkDependencies,
    NewInventoryUpdate,
    NewProjectUpdate,
    NewUpdate,
)

_LAUNCH_TYPE = "dependency"


def launch_needed(
    connection: Connection, decisions: Sequence[LinkDependencies]
) -> dict[NewUpdate, int]:
    """Make the jobs of all new updates, and link inventory updates to their projects'.

    Returns:
        Their jobs; without those of projects and sources that were deleted meanwhile.
    """
    wanted = dict.fromkeys(update for d in decisions for update in d.updates)
    of_inventories = [u for u in wanted if isinstance(u, NewInventoryUpdate)]
    of_projects = dict.fromkeys(u for u in wanted if isinstance(u, NewProjectUpdate))
    of_projects |= dict.fromkeys(
        u.after for u in of_inventories if isinstance(u.after, NewProjectUpdate)
    )
    made: dict[NewUpdate, int] = {}
    if of_projects:
        launched = launch_project_updates(
            connection,
            [ProjectUpdate(u.project_id, u.branch) for u in of_projects],
            launch_type=_LAUNCH_TYPE,
        )
        pairs = zip(of_projects, launched, strict=True)
        made |= {update: job.job_id for update, job in pairs if job is not None}
    if of_inventories:
        launched = launch_inventory_updates(
            connection,
            [InventoryUpdate(u.source_id) for u in of_inventories],
            launch_type=_LAUNCH_TYPE,
            processed=True,
        )
        links = []
        for update, job in zip(of_inventories, launched, strict=True):
            if job is None:
                continue
            made[update] = job.job_id
            after = update.after
            if isinstance(after, NewProjectUpdate):
                after = made.get(after)
            if isinstance(after, int):
                links.append({"job_id": job.job_id, "depends_on_id": after})
        if links:
            connection.execute(insert(t.job_dependency), links)
    return made
