"""Inventories, hosts and groups: saved, changed, put into each other, deleted.

Whatever changes what a pattern means raises the inventory's revision in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, text

from dispatcher.actions import saving
from dispatcher.actions.inventory_changed import inventory_changed, lock_inventory
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import tables as t
from dispatcher.db.change import raise_counter
from dispatcher.domain.launch_checks import flag_problem, values_problems
from dispatcher.domain.text import has_unstorable, shown
from dispatcher.errors import InvalidRequest, NotFound

_BAD_IN_NAME: Final = frozenset(" \t,!&[]{}*?'\"")
#: What changes nothing that a pattern, an address or a run could see.
_WORDS_ONLY: Final = frozenset({"description"})


def host_name_problem(name: object) -> str | None:
    """A host's name: one word that no pattern could take for something else."""
    problem = saving.name_problem(name)
    if problem is None and (_BAD_IN_NAME & set(str(name)) or str(name)[0] in "-~@"):
        problem = "spaces, quotes and the signs of patterns are not allowed"
    return problem


def group_name_problem(name: object) -> str | None:
    """A group's name; ``all`` and ``ungrouped`` are Ansible's own."""
    problem = host_name_problem(name)
    if problem is None and name in ("all", "ungrouped"):
        problem = f"{name} is a group that every inventory has"
    if problem is None and ":" in str(name):
        problem = "':' is not allowed"
    return problem


def variables_problem(variables: object) -> str | list[str] | None:
    """Variables of a host, group or inventory: any names, values that JSON can hold."""
    if not isinstance(variables, Mapping):
        return "a mapping is required"
    if any(not isinstance(name, str) or has_unstorable(name) for name in variables):
        return "names must be texts without NUL"
    return values_problems(variables)


INVENTORY: Final = saving.Subject(
    table=t.inventory,
    word="inventory",
    rules={
        "organization_id": saving.id_problem,
        "name": saving.name_problem,
        "description": saving.text_problem,
        "variables": variables_problem,
    },
    required=("organization_id", "name"),
    references={"organization_id": t.organization},
)
_OF_INVENTORY: Final = {
    "inventory_id": saving.id_problem,
    "description": saving.text_problem,
    "variables": variables_problem,
}
HOST: Final = saving.Subject(
    table=t.inventory_host,
    word="host",
    rules={**_OF_INVENTORY, "name": host_name_problem, "enabled": flag_problem},
    required=("inventory_id", "name"),
    references={"inventory_id": t.inventory},
    fixed=("inventory_id",),
    within="inventory_id",
)
GROUP: Final = saving.Subject(
    table=t.inventory_group,
    word="group",
    rules={**_OF_INVENTORY, "name": group_name_problem},
    required=("inventory_id", "name"),
    references={"inventory_id": t.inventory},
    fixed=("inventory_id",),
    within="inventory_id",
)


# -- inventories


def create_inventory(connection: Connection, values: Mapping[str, Any]) -> int:
    """Make an inventory; its id."""
    return saving.create(connection, INVENTORY, values)


def change_inventory(connection: Connection, inventory_id: int, values: Mapping[str, Any]) -> Owed:
    """Change an inventory."""
    lock_inventory(connection, inventory_id)
    saving.change(connection, INVENTORY, inventory_id, values)
    return _settle(connection, inventory_id, changed="variables" in values)


def delete_inventory(connection: Connection, inventory_id: int) -> None:
    """Delete an inventory with all that is in it, unless a template uses it."""
    saving.remove(connection, INVENTORY, inventory_id)


def merge_variables(
    connection: Connection, subject: saving.Subject, object_id: int, given: Mapping[str, Any]
) -> Owed:
    """Lay variables over those of an inventory, host or group; names that are not given stay.

    Raises:
        NotFound: there is no such object.
        InvalidRequest: names ``variables``.
    """
    if subject is INVENTORY:
        lock_inventory(connection, object_id)
    else:
        _inventory_of(connection, subject, object_id)
    held = connection.scalar(
        text(f"SELECT variables FROM {subject.table.name} WHERE id = :id"), {"id": object_id}
    )
    change = {INVENTORY.word: change_inventory, HOST.word: change_host, GROUP.word: change_group}
    return change[subject.word](connection, object_id, {"variables": {**(held or {}), **given}})


# -- hosts and groups


def create_host(connection: Connection, values: Mapping[str, Any]) -> tuple[int, Owed]:
    """Make a host; its id, and what is owed."""
    return _create(connection, HOST, values)


def change_host(connection: Connection, host_id: int, values: Mapping[str, Any]) -> Owed:
    """Change a host. Enabling or disabling one ends what its source has decided about it."""
    inventory_id = _inventory_of(connection, HOST, host_id)
    saving.change(connection, HOST, host_id, values)
    if "enabled" in values:
        connection.execute(
            text("UPDATE inventory_host SET gone = false WHERE id = :id AND gone"), {"id": host_id}
        )
    changed = bool(set(values) - _WORDS_ONLY)
    return _settle(connection, inventory_id, changed=changed, host_ids=[host_id])


def delete_host(connection: Connection, host_id: int) -> Owed:
    """Delete a host."""
    inventory_id = _inventory_of(connection, HOST, host_id)
    saving.remove(connection, HOST, host_id)
    return _settle(connection, inventory_id, changed=True, host_ids=[])


def create_group(connection: Connection, values: Mapping[str, Any]) -> tuple[int, Owed]:
    """Make a group; its id, and what is owed."""
    return _create(connection, GROUP, values)


def change_group(connection: Connection, group_id: int, values: Mapping[str, Any]) -> Owed:
    """Change a group."""
    inventory_id = _inventory_of(connection, GROUP, group_id)
    saving.change(connection, GROUP, group_id, values)
    return _settle(connection, inventory_id, changed=bool(set(values) - _WORDS_ONLY))


def delete_group(connection: Connection, group_id: int) -> Owed:
    """Delete a group; its hosts and child groups stay."""
    inventory_id = _inventory_of(connection, GROUP, group_id)
    saving.remove(connection, GROUP, group_id)
    return _settle(connection, inventory_id, changed=True)


def put_host(connection: Connection, group_id: int, host_id: int, *, member: bool = True) -> Owed:
    """Put a host into a group, or take it out."""
    inventory_id = _inventory_of(connection, GROUP, group_id)
    _same_inventory(connection, HOST, host_id, inventory_id, "host")
    names = {"group_id": group_id, "host_id": host_id}
    changed = _link(connection, "inventory_group_host", names, member)
    return _settle(connection, inventory_id, changed=changed, host_ids=[host_id])


def put_group(
    connection: Connection, parent_id: int, child_id: int, *, member: bool = True
) -> Owed:
    """Put a group below another one, or take it out.

    Raises:
        InvalidRequest: the groups would be children of each other; with the way round.
    """
    inventory_id = _inventory_of(connection, GROUP, parent_id)
    _same_inventory(connection, GROUP, child_id, inventory_id, "children")
    if member:
        _refuse_cycle(connection, inventory_id, parent_id, child_id)
    names = {"parent_id": parent_id, "child_id": child_id}
    changed = _link(connection, "inventory_group_child", names, member)
    return _settle(connection, inventory_id, changed=changed)


def _create(
    connection: Connection, subject: saving.Subject, values: Mapping[str, Any]
) -> tuple[int, Owed]:
    wrong = saving.check(connection, subject, values, new=True)
    if wrong:
        raise InvalidRequest(wrong)
    lock_inventory(connection, values["inventory_id"])
    made = saving.create(connection, subject, values)
    hosts = [made] if subject is HOST else []
    return made, _settle(connection, values["inventory_id"], changed=True, host_ids=hosts)


def _inventory_of(connection: Connection, subject: saving.Subject, object_id: int) -> int:
    """The inventory of a host or group, locked."""
    found = connection.scalar(
        text(f"SELECT inventory_id FROM {subject.table.name} WHERE id = :id"), {"id": object_id}
    )
    if found is None:
        raise NotFound(f"there is no {subject.word} {object_id}")
    lock_inventory(connection, found)
    return int(found)


def _same_inventory(
    connection: Connection, subject: saving.Subject, object_id: int, inventory_id: int, name: str
) -> None:
    found = connection.scalar(
        text(f"SELECT inventory_id FROM {subject.table.name} WHERE id = :id"), {"id": object_id}
    )
    if found != inventory_id:
        raise InvalidRequest({name: f"there is no {subject.word} {object_id} in this inventory"})


def _link(connection: Connection, table: str, names: Mapping[str, int], member: bool) -> bool:
    one, other = names
    if member:
        statement = (
            f"INSERT INTO {table} ({one}, {other}) VALUES (:{one}, :{other}) ON CONFLICT DO NOTHING"
        )
    else:
        statement = f"DELETE FROM {table} WHERE {one} = :{one} AND {other} = :{other}"
    return connection.execute(text(statement), dict(names)).rowcount > 0


def _refuse_cycle(connection: Connection, inventory_id: int, parent: int, child: int) -> None:
    rows = connection.execute(
        text("SELECT id, name FROM inventory_group WHERE inventory_id = :id"), {"id": inventory_id}
    )
    names = {row.id: row.name for row in rows}
    below: dict[int, list[int]] = {}
    for row in connection.execute(
        text(
            "SELECT parent_id, child_id FROM inventory_group_child JOIN inventory_group"
            " ON id = parent_id WHERE inventory_id = :id"
        ),
        {"id": inventory_id},
    ):
        below.setdefault(row.parent_id, []).append(row.child_id)
    came_from: dict[int, int] = {child: parent}
    left = [child]
    while left:
        group = left.pop()
        if group == parent:
            raise InvalidRequest({"children": f"a loop: {_way(came_from, names, parent, child)}"})
        for each in below.get(group, ()):
            if each not in came_from or (each == parent and group != parent):
                came_from[each] = group
                left.append(each)


def _way(came_from: Mapping[int, int], names: Mapping[int, str], parent: int, child: int) -> str:
    steps = [parent]
    while steps[-1] != child:
        steps.append(came_from[steps[-1]])
    steps.append(parent)
    return " → ".join(shown(names[step])[1:-1] for step in reversed(steps))


def _settle(
    connection: Connection,
    inventory_id: int,
    *,
    changed: bool,
    host_ids: list[int] | None = None,
) -> Owed:
    if not changed:
        return Owed()
    owed = inventory_changed(connection, inventory_id, host_ids=host_ids)
    raise_counter(connection)
    return owed + wake(Manager.TASK)
