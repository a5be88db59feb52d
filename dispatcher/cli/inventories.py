"""What `-i` names: a file of the bundle, a text to send, or hosts written out."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from dispatcher.errors import InvalidRequest


@dataclass(frozen=True)
class InventoryChoice:
    """Exactly one of ``path`` (inside the bundle) and ``text`` is set.

    Attributes:
        warning: what the user should know, or empty.
    """

    path: str | None = None
    text: str | None = None
    warning: str = ""


def choose_inventory(
    given: Sequence[str], directory: Path, members: Collection[str]
) -> InventoryChoice:
    """Decide what becomes of `-i`.

    Args:
        given: every `-i`.
        directory: the packed directory.
        members: names in its bundle.

    Raises:
        InvalidRequest: none, several, or one that cannot be sent.
    """
    if not given:
        raise InvalidRequest(
            {"-i": "is required: an inventory file, or hosts with a comma (-i host,)"}
        )
    if len(given) > 1:
        raise InvalidRequest(
            {"-i": "is given twice; several inventories become one when they lie in one"
             " directory inside the playbook's (-i inventories/)"}
        )  # fmt: skip
    value = given[0]
    if "," in value:
        hosts = [host.strip() for host in value.split(",") if host.strip()]
        return InventoryChoice(text="".join(f"{host}\n" for host in hosts))
    path = Path(value).expanduser()
    if not path.exists():
        raise InvalidRequest(
            {"-i": f"{value}: no such file; hosts written out need a comma (-i {value},)"}
        )
    inside = _name_inside(path, directory)
    if inside is not None and (inside == "." or inside in members):
        return InventoryChoice(path=inside)
    return _read_outside(path)


def _name_inside(path: Path, directory: Path) -> str | None:
    """The name of ``path`` in the bundle of ``directory``; None when it is not below it."""
    # not resolved: a link inside the directory is in the bundle under its own name
    name = os.path.relpath(os.path.abspath(path), os.path.abspath(directory))
    if name == ".." or name.startswith("../"):
        name = os.path.relpath(path.resolve(), directory.resolve())
    return None if name == ".." or name.startswith("../") else name


def _read_outside(path: Path) -> InventoryChoice:
    """A static inventory that is not in the bundle is sent as text."""
    if path.is_dir():
        raise InvalidRequest(
            {"-i": f"{path}: a directory must lie inside the playbook's directory to be sent"}
        )
    if path.stat().st_mode & stat.S_IXUSR:
        raise InvalidRequest(
            {
                "-i": f"{path}: is executable; a script must lie inside the playbook's directory to be sent"
            }
        )
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InvalidRequest({"-i": f"{path}: {error.strerror}"}) from None
    except UnicodeDecodeError:
        raise InvalidRequest({"-i": f"{path}: is not UTF-8"}) from None
    beside = [name for name in ("group_vars", "host_vars") if (path.parent / name).is_dir()]
    warning = ""
    if beside:
        warning = (
            f"{' and '.join(beside)} beside {path} are not sent: only what lies in the playbook's"
            " directory is"
        )
    return InventoryChoice(text=text, warning=warning)
