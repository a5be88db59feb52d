"""A template's launch on the whole stack: project update, inventory update, playbook, in order."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sqlalchemy import select, text

from dispatcher import settings as settings_module
from dispatcher.actions.launch_template import launch_job_template
from dispatcher.actions.save_inventory import create_inventory
from dispatcher.actions.save_project import create_project
from dispatcher.actions.save_source import create_source
from dispatcher.actions.save_template import create_template
from dispatcher.db import tables as t
from dispatcher.db.engine import make_engine
from dispatcher.embedded.state import StackState
from dispatcher.secrets import Cipher
from tests.acceptance.conftest import site
from tests.factories import default_organization
from tests.git_repositories import GitRepository
from tests.nodes import wait_final
from tests.stack import RunningStack


@pytest.mark.parametrize("broken", [False, True])
def test_a_job_waits_for_its_updates_and_runs_what_they_found(
    stack: RunningStack, tmp_path: Path, broken: bool
) -> None:
    python = f"ansible_python_interpreter: {sys.executable}"
    hosts = f"web: {{hosts: {{one: {{ansible_connection: local, {python}}}}}}}\n"
    repository = GitRepository(
        tmp_path / "r",
        {
            "site.yml": site(
                "- ansible.builtin.debug: {msg: 'hello from {{ inventory_hostname }}'}"
            ),
            "hosts.yml": "web: {hosts: [\n" if broken else hosts,
        },
    )
    state = StackState.read(stack.data_dir)
    assert state is not None
    engine = make_engine(
        settings_module.load(database_url=state.database_url), application_name="test"
    )
    with engine.begin() as connection:
        names = {"organization_id": default_organization(connection), "name": f"updates {broken}"}
        project = create_project(
            connection,
            {**names, "scm_type": "git", "scm_url": repository.url, "update_on_launch": True},
        )
        inventory = create_inventory(connection, names)
        create_source(
            connection,
            {
                "inventory_id": inventory,
                "name": "hosts",
                "project_id": project,
                "path": "hosts.yml",
                "update_on_launch": True,
            },
        )
        template = create_template(
            connection,
            {**names, "project_id": project, "inventory_id": inventory, "playbook": "site.yml"},
        )
        launched = launch_job_template(
            connection, template, {}, principal="test", cipher=Cipher(Path(state.key_file))
        )
    row = wait_final(engine, launched.job_id, timeout=120)
    with engine.connect() as connection:
        output = "".join(
            connection.scalars(select(t.job_event.c.stdout).where(t.job_event.c.job_id == row.id))
        )
        updates = connection.execute(
            text(
                "SELECT kind, status, finished FROM job JOIN job_dependency ON depends_on_id = id"
                " WHERE job_id = :job ORDER BY finished"
            ),
            {"job": row.id},
        ).all()
    engine.dispose()
    assert [u.kind for u in updates] == ["project_update", "inventory_update"]
    if broken:
        assert (row.status, row.outcome) == ("failed", "dependency")
        assert [u.status for u in updates] == ["successful", "error"]
        return
    assert row.status == "successful", row.explanation
    assert "hello from one" in output
    assert all(u.status == "successful" and u.finished <= row.started for u in updates)
