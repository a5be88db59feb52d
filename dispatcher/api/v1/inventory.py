"""``groups`` and ``hosts``: the inventory of the root directory, read and changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dispatcher.api.v1.call import Call, Route
from dispatcher.api.v1.envelope import Answer, Refused
from dispatcher.api.v1.root_directory import Locked, write_whole
from dispatcher.api.v1.ssh_check import check_host
from dispatcher.domain.runner_inventory import RESERVED, NoSuchGroup, NoSuchHost, RunnerInventory

_DEFAULT_PORT: Final = 22
_NO_GROUP: Final = "No such group found in the inventory"


def read(call: Call) -> RunnerInventory:
    """The inventory as it is.

    Raises:
        InventoryError, Unreadable: it cannot be read.
    """
    return RunnerInventory(call.root.inventory())


@contextmanager
def changing(
    call: Call, locked: str = "Unable to lock the inventory file, try later"
) -> Iterator[RunnerInventory]:
    """The inventory under the lock; it is written when the block ends without an error.

    Args:
        locked: what is said when somebody else holds the lock.

    Raises:
        Refused: it is locked.
        CannotChange: it has another form.
    """
    try:
        with call.root.changing():
            inventory = read(call)
            before = inventory.text()
            yield inventory
            # one that was not changed keeps its form and its comments
            if (after := inventory.text()) != before:
                write_whole(call.root.inventory_file, after)
    except Locked:
        raise Refused("LOCKED", locked) from None


# -- groups


def list_groups(call: Call) -> Answer:
    """Names of all groups."""
    return Answer(data={"groups": read(call).groups()})


def show_group(call: Call) -> Answer:
    """Hosts of a group."""
    try:
        return Answer(data={"members": read(call).members(call.parts["group"])})
    except NoSuchGroup:
        raise Refused("NOTFOUND", "Group doesn't exist") from None


def add_group(call: Call) -> Answer:
    """Add an empty group."""
    group = call.parts["group"]
    if group in RESERVED:
        raise Refused("INVALID", f"Group name '{group}' is a reserved/system group name")
    call.name("group")
    with changing(call, "Unable to lock the inventory file") as inventory:
        if group in inventory.groups():
            return Answer(msg="Group already exists")
        inventory.add_group(group)
    return Answer(msg=f"Group {group} added")


def remove_group(call: Call) -> Answer:
    """Remove a group, with the hosts in it."""
    group = call.parts["group"]
    try:
        with changing(call, "Unable to lock the inventory file") as inventory:
            inventory.remove_group(group)
    except NoSuchGroup:
        raise Refused("INVALID", "Group doesn't exist") from None
    return Answer(msg=f"Group {group} removed")


# -- hosts


def list_hosts(call: Call) -> Answer:
    """Names of all hosts, sorted."""
    return Answer(data={"hosts": read(call).hosts()})


def show_host(call: Call) -> Answer:
    """The groups that a host is in."""
    groups = read(call).groups_of(call.parts["host"])
    return Answer("OK" if groups else "NOTFOUND", data={"groups": groups})


def remove_host(call: Call) -> Answer:
    """Take a host out of every group."""
    host = call.parts["host"]
    with changing(call) as inventory:
        groups = inventory.groups_of(host)
        for group in groups:
            inventory.remove_host(group, host)
    msg = f"{host} removed from {len(groups)} group(s) ({','.join(groups)})"
    return Answer("OK" if groups else "NOTFOUND", msg)


def add_to_group(call: Call) -> Answer:
    """Put a host into a group, once it was logged into by SSH."""
    if any(name not in ("others", "port") for name in call.query):
        raise Refused("INVALID", "Supported additional parameters are others,port")
    host = call.name("host")
    others = call.query.get("others", "")
    groups = [call.parts["group"], *(name for name in others.split(",") if name)]
    port = _port(call.query.get("port", ""))
    inventory = read(call)
    if groups[0] not in inventory.groups():
        raise Refused("INVALID", _NO_GROUP)
    if any(host not in inventory.members(g) for g in groups if g in inventory.groups()):
        # outside of the lock: nobody else waits for a host that does not answer
        check_host(call.ground.options, host, port, call.root)
    answer = Answer()
    with changing(call) as inventory:
        # the first group that fails ends it; those before it have the host
        for group in groups:
            answer = _added(inventory, group, host, port if call.query else None)
            if answer.status != "OK":
                break
    return answer


def _added(inventory: RunnerInventory, group: str, host: str, port: int | None) -> Answer:
    if group not in inventory.groups():
        return Answer("INVALID", _NO_GROUP)
    if host in inventory.members(group):
        return Answer("OK", f"Host already in the group {group}", {"hostname": host})
    variables = None if port is None else {"ansible_host": host, "ansible_port": port}
    inventory.set_host(group, host, variables)
    return Answer("OK", f"{host} added", {"hostname": host})


def _port(given: str) -> int:
    """The port; the default one in place of what is none."""
    port = int(given) if given.isdecimal() and given.isascii() and len(given) <= 5 else 0
    return port if 0 < port < 65536 else _DEFAULT_PORT


def remove_from_group(call: Call) -> Answer:
    """Take a host out of a group."""
    try:
        with changing(call) as inventory:
            inventory.remove_host(call.parts["group"], call.parts["host"])
    except (NoSuchGroup, NoSuchHost):
        raise Refused("INVALID", _NO_GROUP) from None
    return Answer()


ROUTES: Final = (
    Route("GET", "/api/v1/groups", list_groups, "The groups of the inventory"),
    Route("GET", "/api/v1/groups/{group}", show_group, "The hosts of a group"),
    Route("POST", "/api/v1/groups/{group}", add_group, "Add a group"),
    Route("DELETE", "/api/v1/groups/{group}", remove_group, "Remove a group"),
    Route("GET", "/api/v1/hosts", list_hosts, "The hosts of the inventory"),
    Route("GET", "/api/v1/hosts/{host}", show_host, "The groups of a host"),
    Route("DELETE", "/api/v1/hosts/{host}", remove_host, "Remove a host"),
    Route(
        "POST",
        "/api/v1/hosts/{host}/groups/{group}",
        add_to_group,
        "Add a host to a group",
        ("others", "port"),
    ),
    Route(
        "DELETE", "/api/v1/hosts/{host}/groups/{group}", remove_from_group, "Take a host out of it"
    ),
)
