"""Roles and collections that a project asks for in ``requirements.yml``, installed into its tree."""

from __future__ import annotations

import configparser
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from workers.git import GitError, Shell

#: Where they go, inside the bundle: beside what the project has itself, never over it.
INSTALLED: Final = ".dispatcher"
#: Ansible's defaults, which the variables would hide; not those in an account's home.
_OF_MACHINE: Final = {
    "roles": ("/usr/share/ansible/roles", "/etc/ansible/roles"),
    "collections": ("/usr/share/ansible/collections",),
}
_SUFFIXES: Final = ("yml", "yaml")


def install(tree: Path, shell: Shell) -> None:
    """Install what the project's requirements name.

    Raises:
        GitError: a file cannot be read, or something in it cannot be installed; names the file.
    """
    galaxy = str(Path(sys.executable).parent / "ansible-galaxy")
    for kind, name in _wanted(tree):
        shell.say(f"installing {kind}s of {name}")
        target = tree / INSTALLED / f"{kind}s"
        target.mkdir(parents=True, exist_ok=True)
        command = [galaxy, kind, "install", "-r", name, "-p", str(target), "--force"]
        try:
            shell.run(command, cwd=tree)
        except GitError as error:
            raise GitError(f"{name}: {kind}s cannot be installed: {error}") from None


def _wanted(tree: Path) -> list[tuple[str, str]]:
    """Pairs of ``role`` or ``collection`` and the file that names some."""
    found = []
    for directory, kinds in (("roles/", ["role"]), ("collections/", ["collection"]),
                             ("", ["role", "collection"])):  # fmt: skip
        for suffix in _SUFFIXES:
            name = f"{directory}requirements.{suffix}"
            path = tree / name
            if path.is_symlink() or not path.is_file():
                continue
            document = _read(path, name)
            found += [(kind, name) for kind in kinds if _names(document, kind)]
    return found


def _read(path: Path, name: str) -> Any:
    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = "" if mark is None else f", line {mark.line + 1}"
        raise GitError(f"{name}{line}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise GitError(f"{name}: {error}") from None


def _names(document: Any, kind: str) -> bool:
    if isinstance(document, list):
        return kind == "role" and bool(document)
    return isinstance(document, dict) and bool(document.get(f"{kind}s"))


def search_paths(project: Path) -> dict[str, str]:
    """Variables by which Ansible finds what was installed; none when nothing was."""
    found = {}
    for kind, variable, setting in (
        ("roles", "ANSIBLE_ROLES_PATH", "roles_path"),
        ("collections", "ANSIBLE_COLLECTIONS_PATH", "collections_path"),
    ):
        installed = project / INSTALLED / kind
        if installed.is_dir():
            configured = configured_paths(project, setting)
            places = [str(installed), str(project / kind), *configured, *_OF_MACHINE[kind]]
            found[variable] = ":".join(places)
    return found


def configured_paths(project: Path, setting: str) -> list[str]:
    """What the project's own ``ansible.cfg`` says of a search path; a variable would hide it."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(project / "ansible.cfg", encoding="utf-8")
        value = parser.get("defaults", setting, fallback="")
    except (configparser.Error, UnicodeDecodeError, OSError):
        return []
    return [str(project / part.strip()) for part in value.split(":") if part.strip()]
