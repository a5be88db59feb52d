"""Updates of projects and inventories on a node under test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, select, text

from dispatcher.actions.launch_update import launch_inventory_update, launch_project_update
from dispatcher.actions.store_content import read_bundle
from dispatcher.db import job_moves
from dispatcher.db import tables as t
from tests import nodes
from tests.factories import default_group
from tests.templates import make_inventory, make_project, make_source, updated
from workers.project_copy import unpack


@dataclass(frozen=True)
class Updates:
    """A node whose jobs are handed over as its Celery worker does it, and its database."""

    node: nodes.NodeUnderTest
    engine: Engine

    def project(self, url: str, **columns: Any) -> int:
        """A project of a git repository."""
        with self.engine.begin() as connection:
            return make_project(connection, scm_url=url, **columns)

    def source(self, files: dict[str, str], path: str, **columns: Any) -> tuple[int, int]:
        """A source in a project that has been updated to these files: (inventory, source)."""
        with self.engine.begin() as connection:
            project = make_project(connection)
            updated(connection, project, files=files)
            inventory = make_inventory(connection)
            return inventory, make_source(connection, inventory, project, path=path, **columns)

    def start(self, job_id: int) -> UUID:
        """Put a pending job on the node, as the TaskManager does; its dispatch id."""
        node_id = self.node.wait_registered(self.engine)
        dispatch_id = UUID(int=job_id)
        with self.engine.begin() as connection:
            row = job_moves.StartRow(job_id, dispatch_id, node_id, default_group(connection))
            assert job_moves.start(connection, [row])
        self.node.hand_over((job_id, dispatch_id))
        return dispatch_id

    def fetch(self, project: int, branch: str = "") -> Any:
        """Run an update of a project to its end: its row."""
        with self.engine.begin() as connection:
            job_id = launch_project_update(connection, project, branch=branch).job_id
        self.start(job_id)
        return nodes.wait_final(self.engine, job_id)

    def list_hosts(self, source: int) -> Any:
        """Run an update of an inventory source to its end: its row."""
        with self.engine.begin() as connection:
            job_id = launch_inventory_update(connection, source).job_id
            connection.execute(
                text("UPDATE job SET dependencies_processed = true WHERE id = :id"), {"id": job_id}
            )
        self.start(job_id)
        return nodes.wait_final(self.engine, job_id)

    def fetched(self, job_id: int) -> Any:
        """What a project's update found, as it is stored."""
        with self.engine.connect() as connection:
            return connection.execute(
                select(t.job_project).where(t.job_project.c.job_id == job_id)
            ).one()

    def files(self, digest: str, target: Path) -> set[str]:
        """The files of a bundle, unpacked in ``target``."""
        with self.engine.connect() as connection:
            unpack(read_bundle(connection, digest), target, max_bytes=10**8)
        return {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}

    def hosts(self, inventory: int) -> dict[str, Any]:
        """The hosts of an inventory with their variables."""
        with self.engine.connect() as connection:
            rows = connection.execute(
                select(t.inventory_host.c.name, t.inventory_host.c.variables).where(
                    t.inventory_host.c.inventory_id == inventory
                )
            )
            return {row.name: row.variables for row in rows}

    def output(self, job_id: int) -> str:
        """What a job has printed, and all that its events hold besides."""
        return nodes.output(self.engine, job_id)
