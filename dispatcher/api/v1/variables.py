"""``hostvars`` and ``groupvars``: in a file beside the playbooks, or in the inventory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dispatcher.api.v1.call import Call, Route
from dispatcher.api.v1.envelope import Answer, Refused
from dispatcher.api.v1.inventory import changing, read
from dispatcher.api.v1.root_directory import (
    Locked,
    plain,
    read_variables,
    write_variables,
)
from dispatcher.domain.runner_inventory import NoSuchGroup, NoSuchHost

_TRY_LATER: Final = "Unable to lock the inventory file, try later"


def _show(file: Path, from_inventory: Callable[[], dict[str, Any]], absent: str) -> Answer:
    found = read_variables(file)
    if found is None:
        try:
            found = plain(from_inventory())
        except (NoSuchGroup, NoSuchHost):
            raise Refused("NOTFOUND", absent) from None
    return Answer(data={"vars": found})


def _given(call: Call) -> tuple[Any, str]:
    """The body, and where it goes."""
    given = call.json()
    if any(name != "type" for name in call.query):
        raise Refused("INVALID", "Only type=inventory is supported")
    place = call.query.get("type", "file")
    if place not in ("file", "inventory"):
        raise Refused("INVALID", "type= value must be either inventory or file")
    if place == "inventory" and not isinstance(given, dict):
        raise Refused("INVALID", "Vars must be a JSON object (VARS must be a dict object)")
    return given, place


def _write(call: Call, file: Path, value: Any) -> str:
    try:
        with call.root.changing():
            write_variables(file, value)
    except Locked:
        raise Refused("LOCKED", _TRY_LATER) from None
    return f"Variables written successfully to {file}"


def _remove(call: Call, file: Path) -> None:
    try:
        with call.root.changing():
            file.unlink(missing_ok=True)
    except Locked:
        raise Refused("LOCKED", _TRY_LATER) from None


# -- hosts


def show_host(call: Call) -> Answer:
    """Variables of a host: of its file, else of its entry in the group."""
    host, group = call.name("host"), call.name("group")
    return _show(
        call.root.host_variables_file(host),
        lambda: read(call).host_variables(group, host),
        "Host/group not found",
    )


def set_host(call: Call) -> Answer:
    """Replace a host's variables; the body is a JSON object of them."""
    host, group = call.name("host"), call.name("group")
    given, place = _given(call)
    if place == "file":
        msg = _write(call, call.root.host_variables_file(host), given)
        return Answer("OK", msg, {"hostname": host})
    try:
        with changing(call) as inventory:
            inventory.host_variables(group, host)
            inventory.set_host(group, host, given)
    except NoSuchGroup:
        words = f"Requested group not found ({group})"
        raise Refused("NOTFOUND", words, {"hostname": host}) from None
    except NoSuchHost:
        words = f"Requested host not found ({host})"
        raise Refused("NOTFOUND", words, {"hostname": host}) from None
    return Answer("OK", f"Vars added to {host}", {"hostname": host})


def remove_host(call: Call) -> Answer:
    """Remove a host's variables, both its file and those of its entry."""
    host, group = call.name("host"), call.name("group")
    _remove(call, call.root.host_variables_file(host))
    try:
        with changing(call) as inventory:
            inventory.host_variables(group, host)
            inventory.set_host(group, host, None)
    except (NoSuchGroup, NoSuchHost):
        words = f"Host '{host}' not in group '{group}'"
        raise Refused("NOTFOUND", words, {"hostname": host}) from None
    return Answer("OK", f"Vars removed for '{host}' in group '{group}'", {"hostname": host})


# -- groups


def show_group(call: Call) -> Answer:
    """Variables of a group: of its file, else of the inventory."""
    group = call.name("group")
    return _show(
        call.root.group_variables_file(group),
        lambda: read(call).group_variables(group),
        "group not found",
    )


def set_group(call: Call) -> Answer:
    """Replace a group's variables; the body is a JSON object of them."""
    group = call.name("group")
    given, place = _given(call)
    if place == "file":
        return Answer("OK", _write(call, call.root.group_variables_file(group), given))
    try:
        with changing(call) as inventory:
            inventory.set_group_variables(group, given)
    except NoSuchGroup:
        raise Refused("NOTFOUND", f"Group '{group}' not in inventory") from None
    return Answer("OK", f"Vars added to {group}")


def remove_group(call: Call) -> Answer:
    """Remove a group's variables, both its file and those of the inventory."""
    group = call.name("group")
    _remove(call, call.root.group_variables_file(group))
    try:
        with changing(call) as inventory:
            if inventory.group_variables(group):
                inventory.set_group_variables(group, {})
    except NoSuchGroup:
        raise Refused("NOTFOUND", f"Group '{group}' does not exist") from None
    return Answer("OK", f"group vars removed for '{group}'")


_HOST: Final = "/api/v1/hostvars/{host}/groups/{group}"
_GROUP: Final = "/api/v1/groupvars/{group}"
ROUTES: Final = (
    Route("GET", _HOST, show_host, "A host's variables"),
    Route("POST", _HOST, set_host, "Set a host's variables", ("type",), body={}),
    Route("DELETE", _HOST, remove_host, "Remove a host's variables"),
    Route("GET", _GROUP, show_group, "A group's variables"),
    Route("POST", _GROUP, set_group, "Set a group's variables", ("type",), body={}),
    Route("DELETE", _GROUP, remove_group, "Remove a group's variables"),
)
