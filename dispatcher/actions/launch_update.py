"""Launches of project updates and inventory updates, alone or many at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, insert, text

from dispatcher.actions.idempotency import take_key
from dispatcher.actions.launched import Launched
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import credential_rows, template_rows
from dispatcher.db import tables as t
from dispatcher.db.change import raise_counter
from dispatcher.domain.status import Kind
from dispatcher.errors import NotFound

#: What an update takes of a node's capacity.
UPDATE_IMPACT = 1


@dataclass(frozen=True)
class ProjectUpdate:
    """An update of a project at a branch; an empty one is the project's own."""

    project_id: int
    branch: str = ""
    uuid: UUID | None = None


@dataclass(frozen=True)
class InventoryUpdate:
    """An update of an inventory from a source."""

    inventory_source_id: int
    uuid: UUID | None = None


def launch_project_update(
    connection: Connection,
    project_id: int,
    *,
    launch_type: str = "manual",
    principal: str = "",
    branch: str = "",
    uuid: UUID | None = None,
    idempotency_key: str | None = None,
) -> Launched:
    """Launch an update of a project.

    Args:
        branch: branch, tag or commit; empty: the project's own.

    Raises:
        NotFound: there is no such project.
        Conflict: ``key_reused`` or ``in_progress``, as :func:`launch_run` says.
    """
    key = _Key(principal, "project_updates", idempotency_key, (project_id, branch))

    def launch() -> Launched | None:
        return launch_project_updates(
            connection,
            [ProjectUpdate(project_id, branch, uuid)],
            launch_type=launch_type,
            principal=principal,
        )[0]

    made = _once(connection, key, launch)
    if made is None:
        raise NotFound(f"there is no project {project_id}")
    raise_counter(connection)
    return made


def launch_inventory_update(
    connection: Connection,
    inventory_source_id: int,
    *,
    launch_type: str = "manual",
    principal: str = "",
    uuid: UUID | None = None,
    idempotency_key: str | None = None,
) -> Launched:
    """Launch an update of an inventory from one source.

    Raises:
        NotFound: there is no such source.
        Conflict: ``key_reused`` or ``in_progress``, as :func:`launch_run` says.
    """
    key = _Key(principal, "inventory_updates", idempotency_key, (inventory_source_id,))

    def launch() -> Launched | None:
        return launch_inventory_updates(
            connection,
            [InventoryUpdate(inventory_source_id, uuid)],
            launch_type=launch_type,
            principal=principal,
        )[0]

    made = _once(connection, key, launch)
    if made is None:
        raise NotFound(f"there is no inventory source {inventory_source_id}")
    raise_counter(connection)
    return made


@dataclass(frozen=True)
class _Key:
    """An idempotency key, or none, with the request that it stands for."""

    principal: str
    route: str
    key: str | None
    request: tuple[int | str, ...]


def _once(
    connection: Connection, key: _Key, launch: Callable[[], Launched | None]
) -> Launched | None:
    """Launch, unless the key launched before: then that job, and what was just made is undone."""
    if key.key is None:
        return launch()
    savepoint = connection.begin_nested()
    made = launch()
    if made is None:
        return None
    earlier = take_key(
        connection,
        principal=key.principal,
        route=key.route,
        key=key.key,
        digests=[hashlib.sha256(json.dumps(key.request).encode()).digest()],
        job_id=made.job_id,
    )
    if earlier is None:
        savepoint.commit()
        return made
    savepoint.rollback()
    return Launched(earlier.job_id, earlier.uuid, False, Owed())


def launch_project_updates(
    connection: Connection,
    updates: Sequence[ProjectUpdate],
    *,
    launch_type: str,
    principal: str = "",
) -> list[Launched | None]:
    """Launch many; None for a project that is gone. The caller raises the change counter."""
    projects = template_rows.read_projects(connection, {u.project_id for u in updates})
    wanted = [(u, projects[u.project_id]) for u in updates if u.project_id in projects]
    groups = _groups(connection, {p.organization_id for _, p in wanted})
    ids = iter(template_rows.next_job_ids(connection, len(wanted)))
    drafts = []
    for update, project in wanted:
        job = _job(
            next(ids), update.uuid, Kind.PROJECT_UPDATE, project.name, project.organization_id,
            launch_type, principal, groups[project.organization_id],
        )  # fmt: skip
        job |= {"project_id": project.id, "dependencies_processed": True}
        branch = update.branch or project.scm_branch
        drafts.append((job, template_rows.project_row(project, branch, job["id"]), project.timeout))
    _insert(connection, drafts)
    _note_credentials(connection, [(job, projects[job["project_id"]]) for job, _, _ in drafts])
    made = iter(Launched(j["id"], j["uuid"], True, wake(Manager.TASK)) for j, _, _ in drafts)
    return [next(made) if u.project_id in projects else None for u in updates]


def launch_inventory_updates(
    connection: Connection,
    updates: Sequence[InventoryUpdate],
    *,
    launch_type: str,
    principal: str = "",
    processed: bool = False,
) -> list[Launched | None]:
    """Launch many; None for a source that is gone. The caller raises the change counter.

    Args:
        processed: the caller links what they depend on; else the DependencyManager does.
    """
    rows = connection.execute(
        text(
            """
            SELECT inventory_source.*, inventory.organization_id, inventory.name AS inventory_name,
                (SELECT name FROM credential WHERE credential.id = credential_id) AS credential_name
            FROM inventory_source JOIN inventory ON inventory.id = inventory_id
            WHERE inventory_source.id = ANY(CAST(:ids AS bigint[]))
            """
        ),
        {"ids": [u.inventory_source_id for u in updates]},
    )
    sources = {row.id: row for row in rows}
    wanted = [sources[u.inventory_source_id] for u in updates if u.inventory_source_id in sources]
    projects = template_rows.read_projects(connection, {s.project_id for s in wanted})
    groups = _groups(connection, {s.organization_id for s in wanted})
    ids = iter(template_rows.next_job_ids(connection, len(wanted)))
    drafts = []
    for update in updates:
        source = sources.get(update.inventory_source_id)
        if source is None:
            continue
        project = projects[source.project_id]
        job = _job(
            next(ids), update.uuid, Kind.INVENTORY_UPDATE,
            f"{source.inventory_name} - {source.name}", source.organization_id, launch_type,
            principal, groups[source.organization_id],
        )  # fmt: skip
        job |= {
            "project_id": project.id,
            "inventory_id": source.inventory_id,
            "inventory_source_id": source.id,
            "dependencies_processed": processed,
        }
        row = template_rows.project_row(project, project.scm_branch, job["id"])
        drafts.append((job, row, source.timeout))
    _insert(connection, drafts, paths=[s.path for s in wanted])
    _note_credentials(
        connection, [(job, sources[job["inventory_source_id"]]) for job, _, _ in drafts]
    )
    manager = Manager.TASK if processed else Manager.DEPENDENCY
    made = iter(Launched(j["id"], j["uuid"], True, wake(manager)) for j, _, _ in drafts)
    return [next(made) if u.inventory_source_id in sources else None for u in updates]


def _job(
    job_id: int,
    uuid: UUID | None,
    kind: Kind,
    name: str,
    organization_id: int,
    launch_type: str,
    principal: str,
    groups: list[int],
) -> dict[str, Any]:
    return {
        "id": job_id,
        "uuid": uuid or uuid4(),
        "kind": kind,
        "name": name,
        "organization_id": organization_id,
        "launch_type": launch_type,
        "launched_by": principal,
        "task_impact": UPDATE_IMPACT,
        "forks": 1,
        "preferred_groups": groups,
    }


def _groups(connection: Connection, organizations: set[int]) -> Mapping[int, list[int]]:
    """The preferred instance groups of each organization: its own, else ``default``."""
    known = template_rows.read_group_names(connection)
    default = [group for group, name in known.items() if name == "default"]
    rows = connection.execute(
        text("SELECT id, instance_groups FROM organization WHERE id = ANY(CAST(:ids AS bigint[]))"),
        {"ids": list(organizations)},
    )
    return {row.id: [g for g in row.instance_groups if g in known] or default for row in rows}


def _note_credentials(
    connection: Connection, jobs: Iterable[tuple[Mapping[str, Any], Any]]
) -> None:
    """Of jobs with what each of them updates."""
    links = [(job["id"], of.credential_id, of.credential_name or "") for job, of in jobs]
    credential_rows.note_credentials(connection, [link for link in links if link[1] is not None])


def _insert(
    connection: Connection,
    drafts: Sequence[tuple[dict[str, Any], dict[str, Any], int]],
    paths: Sequence[str] = (),
) -> None:
    if not drafts:
        return
    connection.execute(insert(t.job), [job for job, _, _ in drafts])
    inputs = [
        {
            "job_id": job["id"],
            "playbook": "",
            "inventory_path": paths[place] if paths else None,
            "extra_vars": {},
            "timeout": timeout,
        }
        for place, (job, _, timeout) in enumerate(drafts)
    ]
    connection.execute(insert(t.job_input), inputs)
    connection.execute(insert(t.job_project), [row for _, row, _ in drafts])
