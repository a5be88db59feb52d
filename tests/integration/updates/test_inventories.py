"""Inventory updates on a real node: files, plugins and scripts, through ansible-inventory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import delete, select, update

from dispatcher.db import tables as t
from tests.git_repositories import GitRepository
from tests.nodes import holding, saved_credential
from tests.templates import make_inventory, make_source
from tests.updates import Updates


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ({"hosts.ini": "[web]\na x=1\nb\n[web:vars]\ny=2\n"}, "hosts.ini"),
        ({"hosts/one.yml": "web: {hosts: {a: {x: 1}}}", "hosts/two.ini": "[web]\nb\n"}, "hosts"),
        (
            {
                "plugin/x.constructed.yml": "plugin: ansible.builtin.constructed\nstrict: true\n"
                "groups: {web: true}\n",
                "plugin/a.ini": "a x=1\nb\n",
            },
            "plugin",
        ),
    ],
)
def test_a_file_a_directory_or_a_plugin_is_listed_by_ansible_and_imported(
    updates: Updates, files: dict[str, str], path: str
) -> None:
    inventory, source = updates.source(files, path)
    row = updates.list_hosts(source)
    assert row.status == "successful", (row.explanation, updates.output(row.id))
    hosts = updates.hosts(inventory)
    assert {name: int(found.get("x", 0)) for name, found in hosts.items()} == {"a": 1, "b": 0}
    with updates.engine.connect() as connection:
        groups = set(
            connection.scalars(
                select(t.inventory_group.c.name).where(
                    t.inventory_group.c.inventory_id == inventory
                )
            )
        )
    assert groups == {"web"}


def test_a_broken_inventory_fails_the_update_with_file_and_line(updates: Updates) -> None:
    inventory, source = updates.source({"hosts.yml": "all:\n  hosts:\n   - {a: [\n"}, "hosts.yml")
    row = updates.list_hosts(source)
    assert (row.status, row.outcome) == ("error", "inventory")
    assert row.explanation.startswith("hosts.yml, line 4: ")
    assert updates.hosts(inventory) == {}
    _, source = updates.source({"a": ""}, "nothing.yml")
    row = updates.list_hosts(source)
    assert (row.outcome, "nothing.yml" in row.explanation) == ("inventory", True)


def test_a_script_gets_its_sources_credential_and_nothing_of_it_is_kept(
    updates: Updates, tmp_path: Path
) -> None:
    script = """#!/bin/sh
echo "asking with $CMDB_TOKEN" >&2
host=$(cat "$CMDB_CONFIG")
case "$CMDB_TOKEN" in open-*-4242) ;; *) exit 1 ;; esac
echo "{\\"web\\": {\\"hosts\\": [\\"$host\\"]}, \\"_meta\\": {\\"hostvars\\": {}}}"
"""
    repository = GitRepository(tmp_path / "r", {"x": ""})
    repository.commit({"cmdb.sh": script}, executable=True)
    project = updates.project(repository.url)
    assert updates.fetch(project).status == "successful"
    given = {"variables": {"CMDB_TOKEN": "open-sesame-4242"}, "files": {"CMDB_CONFIG": "from-cmdb"}}
    credential = saved_credential(updates.node, updates.engine, "environment", **given)
    with updates.engine.begin() as connection:
        inventory = make_inventory(connection)
        source = make_source(
            connection, inventory, project, path="cmdb.sh", credential_id=credential
        )
    row = updates.list_hosts(source)
    assert row.status == "successful", (row.explanation, updates.output(row.id))
    assert updates.hosts(inventory) == {"from-cmdb": {}}
    assert "open-sesame-4242" not in updates.output(row.id)
    assert holding(updates.node.data_dir, "open-sesame-4242") == []
    with updates.engine.begin() as connection:
        connection.execute(update(t.inventory_source).values(credential_id=None))
        connection.execute(delete(t.job_credential))
        connection.execute(delete(t.credential))
    row = updates.list_hosts(source)
    assert (row.status, row.outcome) == ("error", "inventory"), "the script says no by itself"
    assert updates.hosts(inventory) == {"from-cmdb": {}}, "and nothing is imported"


def test_a_script_is_executed_and_one_that_hangs_is_stopped(
    updates: Updates, tmp_path: Path
) -> None:
    listing = json.dumps({"web": {"hosts": ["s1"]}, "_meta": {"hostvars": {"s1": {"x": 1}}}})
    repository = GitRepository(tmp_path / "r", {"x": ""})
    repository.commit({"good": f"#!/bin/sh\necho '{listing}'\n"}, executable=True)
    repository.commit({"slow": "#!/bin/sh\nsleep 300\n"}, executable=True)
    project = updates.project(repository.url)
    assert updates.fetch(project).status == "successful"
    with updates.engine.begin() as connection:
        inventory = make_inventory(connection)
        good = make_source(connection, inventory, project, path="good")
        slow = make_source(connection, inventory, project, path="slow", timeout=3)
    row = updates.list_hosts(good)
    assert row.status == "successful", (row.explanation, updates.output(row.id))
    assert updates.hosts(inventory) == {"s1": {"x": 1}}
    row = updates.list_hosts(slow)
    assert (row.status, row.outcome) == ("failed", "timeout")
