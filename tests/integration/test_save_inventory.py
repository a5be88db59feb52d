"""Inventories in the tables: saves, groups in groups, imports, and what follows for pending jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, select

from dispatcher.actions import save_inventory as save
from dispatcher.actions.import_inventory import Imported, import_inventory
from dispatcher.actions.save_project import change_project, create_project, delete_project
from dispatcher.actions.save_source import create_source
from dispatcher.actions.save_template import change_template, create_template
from dispatcher.db import tables as t
from dispatcher.db.stored_inventory import read_inventory
from dispatcher.domain.inventory_listing import read_listing
from dispatcher.errors import Conflict, InvalidRequest
from tests.factories import default_organization, make_job
from tests.templates import make_inventory, make_project, make_source, make_template


def _inventory(connection: Connection, inventory: int) -> Any:
    return connection.execute(select(t.inventory).where(t.inventory.c.id == inventory)).one()


def _hosts(connection: Connection, inventory: int) -> dict[str, Any]:
    rows = connection.execute(
        select(t.inventory_host).where(t.inventory_host.c.inventory_id == inventory)
    )
    return {row.name: row for row in rows}


def _import(
    connection: Connection, source: int, hosts: Mapping[str, Mapping[str, Any]], **groups: Any
) -> Imported:
    document = {"_meta": {"hostvars": dict(hosts)}, **groups}
    return import_inventory(connection, source, read_listing(document))


@pytest.fixture
def inventory(engine: Engine) -> int:
    with engine.begin() as connection:
        return save.create_inventory(
            connection, {"organization_id": default_organization(connection), "name": "i"}
        )


def test_a_host_has_the_address_that_its_variables_and_groups_give_it(
    engine: Engine, inventory: int
) -> None:
    with engine.begin() as connection:
        host, _ = save.create_host(connection, {"inventory_id": inventory, "name": "A.example"})
        assert _hosts(connection, inventory)["A.example"].address == "a.example:22"
        group, _ = save.create_group(
            connection,
            {"inventory_id": inventory, "name": "g", "variables": {"ansible_port": 2222}},
        )
        save.put_host(connection, group, host)
        assert _hosts(connection, inventory)["A.example"].address == "a.example:2222"
        save.change_inventory(
            connection, inventory, {"variables": {"ansible_host": "{{ inventory_hostname }}"}}
        )
        assert _hosts(connection, inventory)["A.example"].address is None
        row = _inventory(connection, inventory)
    assert (row.host_count, row.revision) == (1, 4)


def test_words_alone_change_no_revision(engine: Engine, inventory: int) -> None:
    with engine.begin() as connection:
        host, _ = save.create_host(connection, {"inventory_id": inventory, "name": "a"})
        before = _inventory(connection, inventory).revision
        assert not save.change_host(connection, host, {"description": "new"})
        assert _inventory(connection, inventory).revision == before


def test_groups_that_would_be_children_of_each_other_are_refused_with_the_way(
    engine: Engine, inventory: int
) -> None:
    with engine.begin() as connection:
        a, b, c = (
            save.create_group(connection, {"inventory_id": inventory, "name": name})[0]
            for name in "abc"
        )
        save.put_group(connection, a, b)
        save.put_group(connection, b, c)
        with pytest.raises(InvalidRequest) as refused:
            save.put_group(connection, c, a)
        assert refused.value.fields == {"children": ["a loop: c → a → b → c"]}
        with pytest.raises(InvalidRequest):
            save.put_group(connection, a, a)


@pytest.mark.parametrize(
    ("subject", "values", "field"),
    [
        ("host", {"name": "a b"}, "name"),
        ("host", {"name": "-x"}, "name"),
        ("host", {"name": "x", "variables": [1]}, "variables"),
        ("host", {"name": "x", "color": 1}, "color"),
        ("host", {}, "name"),
        ("host", {"name": "x", "inventory_id": 10**9}, "inventory"),
        ("group", {"name": "all"}, "name"),
        ("source", {"name": "s", "path": "../x", "project_id": 1}, "source_path"),
        ("source", {"name": "s", "path": "x", "project_id": 10**9}, "source_project"),
    ],
)
def test_a_wrong_field_is_named(
    engine: Engine, inventory: int, subject: str, values: dict[str, Any], field: str
) -> None:
    given = {"inventory_id": inventory} | values
    create: dict[str, Any] = {
        "host": save.create_host, "group": save.create_group, "source": create_source
    }  # fmt: skip
    with engine.begin() as connection, pytest.raises(InvalidRequest) as refused:
        create[subject](connection, given)
    assert field in refused.value.fields


def test_a_name_is_taken_once_in_an_inventory(engine: Engine, inventory: int) -> None:
    with engine.begin() as connection:
        save.create_host(connection, {"inventory_id": inventory, "name": "a"})
        with pytest.raises(InvalidRequest) as refused:
            save.create_host(connection, {"inventory_id": inventory, "name": "a"})
        assert "already" in refused.value.fields["name"][0]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"scm_type": "git"}, "scm_url"),
        ({"scm_type": "git", "scm_url": "ext::sh -c x"}, "scm_url"),
        ({"scm_type": "git", "scm_url": "https://me:secret@x/y"}, "scm_url"),
        ({"scm_type": "git", "scm_url": "--upload-pack=x"}, "scm_url"),
        ({"scm_type": "git", "scm_url": "ssh://-oProxyCommand=x/y"}, "scm_url"),
        ({"scm_type": "local", "local_path": "relative"}, "local_path"),
        ({"scm_type": "local", "local_path": "/x", "scm_url": "https://x/y"}, "scm_url"),
        ({"scm_type": "svn", "scm_url": "https://x/y"}, "scm_type"),
        ({"scm_type": "git", "scm_url": "https://x/y", "scm_branch": "-x"}, "scm_branch"),
    ],
)
def test_a_project_that_cannot_be_fetched_safely_is_refused(
    engine: Engine, values: dict[str, Any], field: str
) -> None:
    with engine.begin() as connection, pytest.raises(InvalidRequest) as refused:
        create_project(
            connection,
            {"organization_id": default_organization(connection), "name": "p", **values},
        )
    assert list(refused.value.fields) == [field]


def test_projects_and_templates_are_saved_changed_and_kept_while_they_are_used(
    engine: Engine, inventory: int
) -> None:
    with engine.begin() as connection:
        organization = default_organization(connection)
        project = create_project(
            connection,
            {
                "organization_id": organization,
                "name": "p",
                "scm_type": "git",
                "scm_url": "git@github.example:x/y.git",
            },
        )
        change_project(connection, project, {"scm_type": "local", "scm_url": "", "local_path": "/"})
        template = create_template(
            connection,
            {
                "organization_id": organization,
                "name": "t",
                "playbook": "site.yml",
                "project_id": project,
                "inventory_id": inventory,
            },
        )
        with pytest.raises(InvalidRequest) as refused:
            change_template(connection, template, {"instance_groups": [10**9]})
        assert list(refused.value.fields) == ["instance_groups"]
        with pytest.raises(Conflict):
            delete_project(connection, project)
        change_template(connection, template, {"project_id": None})
        make_job(connection, kind="project_update", project_id=project)
        with pytest.raises(Conflict) as conflict:
            delete_project(connection, project)
        assert conflict.value.extra["active_jobs"]


def test_an_import_brings_hosts_groups_and_variables_and_repeated_changes_nothing(
    engine: Engine, inventory: int
) -> None:
    hosts = {"a": {"ansible_host": "10.0.0.1"}, "b": {}}
    groups: dict[str, Any] = {
        "all": {"children": ["ungrouped", "web"], "vars": {"x": 1}},
        "web": {"hosts": ["a"], "children": ["inner"], "vars": {"ansible_port": 2}},
        "inner": {"hosts": ["b"]},
    }
    with engine.begin() as connection:
        source = make_source(connection, inventory, make_project(connection))
        first = _import(connection, source, hosts, **groups)
        assert (first.hosts, first.groups, first.gone) == (2, 2, 0)
        row = _inventory(connection, inventory)
        assert (row.revision, row.host_count, row.variables) == (1, 2, {"x": 1})
        addresses = {name: h.address for name, h in _hosts(connection, inventory).items()}
        assert addresses == {"a": "10.0.0.1:2", "b": "b:2"}
        again = _import(connection, source, hosts, **groups)
        assert (again.changed, again.gone, bool(again.owed)) == (0, 0, False)
        assert _inventory(connection, inventory).revision == 1
        stored = read_inventory(connection, inventory)
        assert stored is not None
        assert stored.inventory.members("web") == ("a", "b")
        groups["web"]["hosts"] = []
        assert _import(connection, source, hosts, **groups).changed == 1


@pytest.mark.parametrize("policy", ["keep", "disable", "remove"])
def test_hosts_that_are_gone_are_kept_disabled_or_removed(
    engine: Engine, inventory: int, policy: str
) -> None:
    with engine.begin() as connection:
        source = make_source(connection, inventory, make_project(connection), gone_hosts=policy)
        save.create_host(connection, {"inventory_id": inventory, "name": "by-hand"})
        _import(connection, source, {"a": {}, "b": {}})
        _import(connection, source, {"a": {}})
        hosts = {name: h.enabled for name, h in _hosts(connection, inventory).items()}
        expected = {
            "keep": {"a": True, "b": True, "by-hand": True},
            "disable": {"a": True, "b": False, "by-hand": True},
            "remove": {"a": True, "by-hand": True},
        }
        assert hosts == expected[policy]
        assert _inventory(connection, inventory).host_count == sum(hosts.values())
        _import(connection, source, {"a": {}, "b": {}})
        assert _hosts(connection, inventory)["b"].enabled


def test_a_host_that_people_disabled_stays_disabled(engine: Engine, inventory: int) -> None:
    with engine.begin() as connection:
        source = make_source(connection, inventory, make_project(connection))
        _import(connection, source, {"a": {}})
        save.change_host(connection, _hosts(connection, inventory)["a"].id, {"enabled": False})
        _import(connection, source, {"a": {"x": 1}})
        assert not _hosts(connection, inventory)["a"].enabled


def test_ten_thousand_hosts_in_overlapping_groups_are_imported(
    engine: Engine, inventory: int
) -> None:
    hosts = {f"h{n}": {"ansible_host": f"10.{n >> 8}.{n & 255}.1"} for n in range(10_000)}
    groups = {f"g{g}": {"hosts": [f"h{n}" for n in range(g, 10_000, 10)]} for g in range(10)}
    with engine.begin() as connection:
        source = make_source(connection, inventory, make_project(connection))
        assert _import(connection, source, hosts, **groups).changed == 20_010
        assert _inventory(connection, inventory).host_count == 10_000
    # again, when there are rows to compare with that the server has no statistics of
    with engine.begin() as connection:
        assert _import(connection, source, hosts, **groups).changed == 0
    hosts |= {f"h{n}": {} for n in range(5_000)}
    with engine.begin() as connection:
        assert _import(connection, source, hosts, **groups).changed == 5_000


def test_pending_jobs_follow_their_inventory(engine: Engine) -> None:
    with engine.begin() as connection:
        inventory = make_inventory(connection, ["a"])
        template = make_template(connection, make_project(connection), inventory)
        of_template = {"inventory_id": inventory, "job_template_id": template}
        plain, locked, hopeless = (
            make_job(connection, **of_template, inventory_revision=0, **columns, inputs=inputs)
            for columns, inputs in (
                ({}, {"inventory": None}),
                ({"host_lock": "exclusive", "lock_keys": ["host:a:22"]}, {"inventory": None}),
                ({}, {"inventory": None, "limit_pattern": "nobody[3]:a[7]"}),
            )
        )
        for name in ("b", "c"):
            save.create_host(connection, {"inventory_id": inventory, "name": name})
        rows = {
            row.id: row
            for row in connection.execute(
                select(t.job).where(t.job.c.id.in_([plain, locked, hopeless]))
            )
        }
    assert (rows[plain].task_impact, rows[plain].inventory_revision) == (4, 2)
    assert rows[locked].lock_keys == ["host:a:22", "host:b:22", "host:c:22"]
    assert (rows[hopeless].status, rows[hopeless].outcome) == ("failed", "refused")
    assert "a[7]" in rows[hopeless].explanation


def test_a_listing_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not a mapping"):
        read_listing(["a"])
