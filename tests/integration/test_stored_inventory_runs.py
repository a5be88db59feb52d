"""Jobs on an inventory of the tables: what they are given, and what is returned at the claim."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine, select, text

from dispatcher.actions import save_inventory as save
from dispatcher.actions.import_inventory import import_inventory
from dispatcher.actions.launch_template import (
    TemplateLaunch,
    launch_job_template,
    launch_job_templates,
)
from dispatcher.actions.launched import Launched
from dispatcher.db import job_moves
from dispatcher.db import tables as t
from dispatcher.db.engine import make_engine
from dispatcher.db.node_rows import JobHosts
from dispatcher.domain.inventory import parse_inventory
from dispatcher.domain.inventory_listing import read_listing
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.secrets import Cipher
from tests.databases import Databases
from tests.factories import default_group
from tests.nodes import NodeUnderTest, agent_alone, job_row, wait_final
from tests.templates import make_inventory, make_project, make_source, make_template, updated
from tests.waiting import wait_until
from workers.render_inventory import render_inventory

PLAY = """\
- hosts: web
  gather_facts: false
  connection: local
  tasks:
    - ansible.builtin.debug: {msg: "{{ inventory_hostname }} {{ color }} {{ hostvars | length }}"}
"""


@pytest.fixture(scope="module")
def node(
    databases: Databases, migrated_template: str, valkey: EmbeddedValkey, session_dir: Path
) -> Iterator[NodeUnderTest]:
    yield from agent_alone("stored_runs", databases, migrated_template, valkey, session_dir)


@pytest.fixture
def engine(node: NodeUnderTest) -> Iterator[Engine]:
    made = make_engine(node.settings, application_name="test", pool_size=5)
    yield made
    made.dispose()


@pytest.fixture
def cipher(node: NodeUnderTest) -> Cipher:
    return Cipher(node.data_dir / "cluster.key")


def _start(node: NodeUnderTest, engine: Engine, job_id: int, number: int = 0) -> None:
    node_id = node.wait_registered(engine)
    dispatch_id = UUID(int=job_id * 10 + number)
    with engine.begin() as connection:
        row = job_moves.StartRow(job_id, dispatch_id, node_id, default_group(connection))
        assert job_moves.start(connection, [row])
    node.hand_over((job_id, dispatch_id))


def _scene(engine: Engine, **columns: Any) -> tuple[int, int]:
    """An inventory of three hosts in a group, and a template on it."""
    with engine.begin() as connection:
        project = make_project(connection)
        updated(connection, project, files={"site.yml": PLAY, "n": str(project)})
        inventory = make_inventory(connection)
        source = make_source(connection, inventory, project)
        listing = {
            "_meta": {"hostvars": {"a": {"color": "red"}, "b": {}, "c": {}}},
            "web": {"hosts": ["a", "b", "c"], "vars": {"color": "blue"}},
        }
        import_inventory(connection, source, read_listing(listing))
        return inventory, make_template(connection, project, inventory, **columns)


def _summaries(engine: Engine, job_id: int) -> list[str]:
    with engine.connect() as connection:
        return list(
            connection.scalars(
                select(t.job_host_summary.c.host_name)
                .where(t.job_host_summary.c.job_id == job_id)
                .order_by(t.job_host_summary.c.host_name)
            )
        )


def _output(engine: Engine, job_id: int) -> str:
    with engine.connect() as connection:
        return "".join(
            connection.scalars(select(t.job_event.c.stdout).where(t.job_event.c.job_id == job_id))
        )


def test_a_job_runs_on_the_enabled_hosts_with_their_variables_and_the_newest_content(
    node: NodeUnderTest, engine: Engine, cipher: Cipher
) -> None:
    inventory, template = _scene(engine, limit_pattern="!c")
    with engine.begin() as connection:
        host = connection.scalar(
            select(t.inventory_host.c.id).where(
                t.inventory_host.c.inventory_id == inventory, t.inventory_host.c.name == "b"
            )
        )
        assert host is not None
        save.change_host(connection, host, {"enabled": False})
        job = launch_job_template(connection, template, {}, principal="", cipher=cipher).job_id
    _start(node, engine, job)
    row = wait_final(engine, job)
    assert row.status == "successful", row.explanation
    assert _summaries(engine, job) == ["a"]
    assert "a red 2" in _output(engine, job)
    assert row.bundle_digest is not None


def test_a_slice_has_its_own_hosts_only(
    node: NodeUnderTest, engine: Engine, cipher: Cipher
) -> None:
    _, template = _scene(engine)
    with engine.begin() as connection:
        answers = launch_job_templates(
            connection,
            [TemplateLaunch(template, {}, "", slice_number=n, slice_count=2) for n in (1, 2)],
            cipher=cipher,
        )
    jobs = [each.job_id for each in answers if isinstance(each, Launched)]
    for job in jobs:
        _start(node, engine, job)
    assert [wait_final(engine, job).status for job in jobs] == ["successful"] * 2
    assert [_summaries(engine, job) for job in jobs] == [["a", "c"], ["b"]]


def test_a_job_whose_inventory_moved_after_its_hosts_were_locked_is_returned_and_locks_anew(
    node: NodeUnderTest, engine: Engine, cipher: Cipher
) -> None:
    inventory, template = _scene(engine, host_lock="exclusive")
    with engine.begin() as connection:
        job = launch_job_template(connection, template, {}, principal="", cipher=cipher).job_id
        # as if the launch had not seen a change that was committed at the same moment
        connection.execute(
            text("UPDATE inventory SET revision = revision + 1 WHERE id = :id"), {"id": inventory}
        )
    _start(node, engine, job)

    def returned() -> Any:
        row = job_row(engine, job)
        return row if row.status == "pending" else None

    row = wait_until(returned, what="the job is returned")
    assert row.pending_reason["data"]["why"] == "inventory_moved"
    assert row.inventory_revision == 2
    assert row.lock_keys == ["host:a:22", "host:b:22", "host:c:22"]
    _start(node, engine, job, 1)
    assert wait_final(engine, job).status == "successful"


def test_a_host_that_came_after_the_locks_is_not_touched(engine: Engine) -> None:
    inventory, _ = _scene(engine)
    with engine.begin() as connection:
        save.create_host(connection, {"inventory_id": inventory, "name": "d"})
    wanted = JobHosts(inventory, 1, ("host:a:22", "host:b:22"), "", 0, 1)
    with engine.connect() as connection:
        rendered = render_inventory(connection, wanted)
    assert parse_inventory(rendered["inventory"]).hosts == ("a", "b")
    assert rendered["limit_pattern"] == ""


def test_content_that_was_never_fetched_ends_the_job_by_name(
    node: NodeUnderTest, engine: Engine, cipher: Cipher
) -> None:
    with engine.begin() as connection:
        project = make_project(connection, scm_url="https://git.example/never.git")
        template = make_template(connection, project, make_inventory(connection, ["a"]))
        job = launch_job_template(connection, template, {}, principal="", cipher=cipher).job_id
    _start(node, engine, job)
    row = wait_final(engine, job)
    assert (row.status, row.outcome) == ("error", "project")
    assert "https://git.example/never.git" in row.explanation


def test_a_job_whose_inventory_was_deleted_ends_with_that_reason(
    node: NodeUnderTest, engine: Engine, cipher: Cipher
) -> None:
    inventory, template = _scene(engine)
    with engine.begin() as connection:
        job = launch_job_template(connection, template, {}, principal="", cipher=cipher).job_id
        connection.execute(
            t.job_template.update().where(t.job_template.c.id == template).values(inventory_id=None)
        )
        connection.execute(t.inventory.delete().where(t.inventory.c.id == inventory))
    _start(node, engine, job)
    row = wait_final(engine, job)
    assert (row.outcome, row.explanation) == ("inventory", "the job's inventory was deleted")


def test_ten_thousand_hosts_are_rendered_fast(engine: Engine) -> None:
    hosts = {f"h{n}": {"ansible_host": f"10.{n >> 8}.{n & 255}.1", "n": n} for n in range(10_000)}
    with engine.begin() as connection:
        inventory = make_inventory(connection)
        source = make_source(connection, inventory, make_project(connection))
        groups = {f"g{g}": {"hosts": [f"h{n}" for n in range(g, 10_000, 10)]} for g in range(10)}
        import_inventory(connection, source, read_listing({"_meta": {"hostvars": hosts}, **groups}))
    with engine.connect() as connection:
        began = time.process_time()
        rendered = render_inventory(connection, JobHosts(inventory, 1, (), "", 0, 1))
        assert time.process_time() - began < 2
    document = json.loads(rendered["inventory"])
    assert document["all"]["hosts"]["h77"] == {"ansible_host": "10.0.77.1", "n": 77}
    assert len(document["g3"]["hosts"]) == 1000
