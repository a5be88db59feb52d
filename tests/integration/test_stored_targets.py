"""What limits of names read of a large inventory is all that they need."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, insert, select, update

from dispatcher import clock
from dispatcher.actions.save_inventory import create_group, create_host, put_group, put_host
from dispatcher.actions.stored_targets import find_stored_targets
from dispatcher.db import tables as t
from dispatcher.db.stored_inventory import read_inventory
from dispatcher.domain.launch import Targets
from dispatcher.domain.targets import HostChoice, find_targets
from tests.templates import make_inventory

#: Limits of names, and limits that look at others too.
LIMITS = [
    "web1.example", "web1.example,db1", "web1.example:db1", "site", "web,db1", "off", "nowhere",
    "web1.example,nowhere", "localhost", "127.0.0.1,db1", "twin", "empty", "elsewhere",
    "", "all", "ungrouped", "web,&twin", "!web", "web:!web1.example", "web*", "~db", "web[0]",
]  # fmt: skip


@pytest.fixture
def inventory(engine: Engine) -> int:
    """Nested groups, a group and a host of one name, a disabled host, a place that is a template."""
    with engine.begin() as connection:
        made = make_inventory(connection, variables={"ansible_port": 2200})
        hosts = {
            name: _host(connection, made, name, **variables)
            for name, variables in {
                "web1.example": {"ansible_host": "10.0.0.1"},
                "web2.example": {},
                "db1": {"ansible_port": 2222},
                "twin": {},
                "off": {},
                "127.0.0.1": {"ansible_connection": "local"},
                "elsewhere": {"ansible_host": "{{ found }}"},
            }.items()
        }
        connection.execute(
            update(t.inventory_host)
            .where(t.inventory_host.c.id == hosts["off"])
            .values(enabled=False)
        )
        groups = {
            name: create_group(connection, {"inventory_id": made, "name": name})[0]
            for name in ("site", "web", "db", "twin", "empty")
        }
        for group, host in (
            ("web", "web1.example"), ("web", "web2.example"), ("db", "db1"), ("db", "off"),
            ("twin", "db1"), ("web", "twin"),
        ):  # fmt: skip
            put_host(connection, groups[group], hosts[host])
        put_group(connection, groups["site"], groups["web"])
        put_group(connection, groups["site"], groups["db"])
        return made


def _host(connection: Connection, inventory: int, name: str, **variables: Any) -> int:
    values = {"inventory_id": inventory, "name": name, "variables": variables}
    return create_host(connection, values)[0]


@pytest.mark.parametrize("host_lock", ["none", "exclusive"])
@pytest.mark.parametrize("extra_vars", [{}, {"ansible_host": "10.9.9.9"}])
def test_a_part_of_the_inventory_gives_the_targets_that_the_whole_gives(
    engine: Engine, inventory: int, extra_vars: dict[str, Any], host_lock: str
) -> None:
    with engine.connect() as connection:
        whole = read_inventory(connection, inventory)
        assert whole is not None
        for limit, (number, count) in product(LIMITS, ((0, 1), (1, 2), (2, 2))):
            choice = HostChoice(limit, host_lock, extra_vars, number, count)
            expected = find_targets(
                inventory, whole.inventory, whole.addresses, choice, cpu=clock.thread_cpu
            )
            found = find_stored_targets(connection, inventory, [choice])
            assert found == (whole.revision, [expected]), (limit, number)


def test_many_jobs_of_one_inventory_are_found_together(engine: Engine, inventory: int) -> None:
    choices = [HostChoice(limit, "exclusive", {}) for limit in (*LIMITS, "~(", *LIMITS)]
    with engine.connect() as connection:
        found = find_stored_targets(connection, inventory, choices)
        assert found is not None
        alone = []
        for choice in choices:
            one = find_stored_targets(connection, inventory, [choice])
            assert one is not None
            alone += one[1]
    assert found[1] == alone
    assert "missing )" in str(found[1][len(LIMITS)])


def test_a_limit_of_one_host_reads_one_host(engine: Engine) -> None:
    with engine.begin() as connection:
        inventory = make_inventory(connection, [f"h{number}" for number in range(300)])
        group = connection.execute(
            insert(t.inventory_group)
            .values(inventory_id=inventory, name="pair")
            .returning(t.inventory_group.c.id)
        ).scalar_one()
        members = connection.scalars(
            select(t.inventory_host.c.id).where(t.inventory_host.c.name.in_(("h7", "h8")))
        ).all()
        connection.execute(
            insert(t.inventory_group_host), [{"group_id": group, "host_id": m} for m in members]
        )
    read = []
    with engine.connect() as connection:

        @event.listens_for(connection, "after_cursor_execute")
        def count(_connection: object, cursor: Any, statement: str, *_rest: object) -> None:
            if "FROM inventory_host WHERE" in statement:
                read.append(cursor.rowcount)

        for limit, keys in (("h42", ("host:h42:22",)), ("pair", ("host:h7:22", "host:h8:22"))):
            found = find_stored_targets(connection, inventory, [HostChoice(limit, "exclusive", {})])
            assert found is not None
            assert found[1] == [Targets(len(keys), keys)]
    assert read == [1, 2]


def test_an_inventory_that_is_gone_has_no_targets(engine: Engine) -> None:
    with engine.connect() as connection:
        assert find_stored_targets(connection, 4711, [HostChoice("a", "none", {})]) is None
