"""Ansible's connection ``local`` for a run whose HOME is its own.

Ansible expands ``~`` of a local host to the account's home, but the modules that it starts there see
the run's HOME: asynchronous tasks are then looked for where they are not, and modules with their
arguments, secrets too, lie in the account's home when a run is killed. The plugin that is written
here is Ansible's own but for the account's name, so that both are the run's HOME.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

from workers.credentials import write_private
from workers.requirements import configured_paths

_ACCOUNT: Final = "self.default_user = getpass.getuser()"
_NOBODY: Final = 'self.default_user = ""'
_OF_MACHINE: Final = "/usr/share/ansible/plugins/connection"


def write_plugin(private: Path, project: Path) -> dict[str, str]:
    """Write the plugin; the variable by which Ansible finds it before its own.

    Raises:
        OSError: it cannot be written.
    """
    source = _source()
    if _ACCOUNT not in source:
        return {}
    directory = private / "plugins"
    directory.mkdir(mode=0o700, exist_ok=True)
    write_private(directory / "local.py", source.replace(_ACCOUNT, _NOBODY))
    configured = configured_paths(project, "connection_plugins")
    return {"ANSIBLE_CONNECTION_PLUGINS": ":".join([str(directory), *configured, _OF_MACHINE])}


def _source() -> str:
    """Of this interpreter's Ansible, which is not imported for it."""
    spec = importlib.util.find_spec("ansible")
    if spec is None or spec.origin is None:
        return ""
    try:
        return (Path(spec.origin).parent / "plugins/connection/local.py").read_text("utf-8")
    except OSError:
        return ""
