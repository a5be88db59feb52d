"""What ansible-playbook is given: files, options and an environment built from nothing.

A caller's value can never become an option, a file to read or a template: options take the form
``--name=value``, extra variables travel in a file as unsafe text, and what the API refused is
refused here again.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher.domain.credential import OF_PLAYBOOKS
from dispatcher.errors import DispatcherError
from workers import credentials, local_connection
from workers.credentials import write_private
from workers.requirements import search_paths
from workers.run_dir import JobSpec, RunDir

#: Variables of the node's own environment that a playbook may see.
PASSED_ON = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "REQUESTS_CA_BUNDLE",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TZ",
)
#: Marks every process of a run, for people who look at a node.
RUN_VARIABLE = "ANSIBLE_DISPATCHER_RUN"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_POLICIES = {"accept-new": "accept-new", "strict": "yes"}
#: ansible-runner drops results above this many characters without a word; see :mod:`workers.events`.
MAX_RESULT_CHARACTERS = 32_000_000


class CannotStart(DispatcherError):
    """The run is refused before ansible-playbook is started.

    Args:
        stage: ``project``, ``inventory``, ``credentials``, ``refused`` or ``internal``: the outcome.
        message: words for people.
    """

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage


@dataclass(frozen=True)
class PlaybookCommand:
    """What :mod:`workers.runner` passes to ansible-runner.

    Attributes:
        playbook: relative to the project, never beginning with a dash.
        options: everything before it.
    """

    playbook: str
    options: tuple[str, ...]
    environment: Mapping[str, str]


def prepare(run_dir: RunDir, spec: JobSpec, inherited: Mapping[str, str]) -> PlaybookCommand:
    """Write inventory and variables, make the private directories, and say what to execute.

    Args:
        inherited: the node's environment; only :data:`PASSED_ON` is taken from it.

    Raises:
        CannotStart: the request names what is not there or not allowed.
        OSError: a file cannot be written.
    """
    playbook = _playbook(run_dir, spec)
    made = prepare_private(run_dir, spec, inherited)
    made |= local_connection.write_plugin(run_dir.private, run_dir.project)
    login = log_in(run_dir, spec, made, usable=OF_PLAYBOOKS)
    options = [f"--inventory={_inventory(run_dir, spec)}", *_selection(spec), *login.options]
    variables = {**spec.extra_vars, **spec.secret_vars}
    if variables:
        text = yaml_text(variables, unsafe=not spec.allow_templating)
        path = run_dir.private / "extra_vars.yml"
        write_private(path, text)
        options.append(f"--extra-vars=@{path}")
    options += ["--check"] * spec.check_mode + ["--diff"] * spec.diff_mode
    if spec.forks:
        options.append(f"--forks={int(spec.forks)}")
    if spec.verbosity:
        options.append("-" + "v" * min(int(spec.verbosity), 6))
    return PlaybookCommand(playbook, tuple(options), made | login.environment)


def log_in(
    run_dir: RunDir, spec: JobSpec, made: dict[str, str], *, usable: Collection[str]
) -> credentials.LaidOut:
    """Lay the credentials out; without the node's own SSH agent when there is a key.

    Args:
        made: the run's environment.
        usable: kinds of credentials that the program takes.

    Raises:
        CannotStart: they cannot be used.
    """
    try:
        login = credentials.for_ansible(run_dir.private, spec.credentials, made, usable=usable)
    except credentials.CredentialUnusable as error:
        raise CannotStart("credentials", str(error)) from None
    if login.own_key:
        made.pop("SSH_AUTH_SOCK", None)
    return login


def prepare_private(run_dir: RunDir, spec: JobSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """Make the private directories; the environment of what is run in them.

    Raises:
        CannotStart, OSError: see :func:`prepare`.
    """
    private = (run_dir.private, run_dir.private / "runner", _home(run_dir), _temporary(run_dir))
    for directory in (*private, run_dir.artifacts):
        directory.mkdir(mode=0o700, exist_ok=True)
    run_dir.control.parent.mkdir(mode=0o700, exist_ok=True)
    if os.lstat(run_dir.control.parent).st_uid != os.geteuid():
        raise CannotStart("internal", f"{run_dir.control.parent} belongs to somebody else")
    run_dir.control.mkdir(mode=0o700)
    return environment(run_dir, spec, inherited)


def environment(run_dir: RunDir, spec: JobSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """The playbook's environment. What ansible-runner adds itself is not in it."""
    account = pwd.getpwuid(os.geteuid()).pw_name
    return {
        **{name: inherited[name] for name in PASSED_ON if name in inherited},
        "PATH": playbook_path(),
        "HOME": str(_home(run_dir)),
        "USER": account,
        "LOGNAME": account,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "TMPDIR": str(_temporary(run_dir)),
        RUN_VARIABLE: run_dir.dispatch_id,
        "ANSIBLE_HOME": str(_home(run_dir) / ".ansible"),
        "ANSIBLE_LOCAL_TEMP": str(_temporary(run_dir)),
        "ANSIBLE_FORCE_COLOR": "1",
        "ANSIBLE_NOCOWS": "1",
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "1",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(run_dir.control),
        # the policy is in the arguments; false would add an option that lets any key pass
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        # the arguments that inventories set least; whatever an inventory sets comes first and wins
        **dict.fromkeys(
            ("ANSIBLE_SSH_EXTRA_ARGS", "ANSIBLE_SCP_EXTRA_ARGS", "ANSIBLE_SFTP_EXTRA_ARGS"),
            _ssh_arguments(run_dir, spec),
        ),
        "MAX_EVENT_RES": str(MAX_RESULT_CHARACTERS),
        **search_paths(run_dir.project),
    }


def playbook_path() -> str:
    """PATH of a playbook: the directory of this interpreter, with its ansible-playbook, first."""
    return f"{Path(sys.executable).parent}:{_SYSTEM_PATH}"


def _ssh_arguments(run_dir: RunDir, spec: JobSpec) -> str:
    if spec.host_key_policy not in _POLICIES:
        raise CannotStart("refused", f"host_key_policy: {spec.host_key_policy!r} is unknown")
    known = spec.known_hosts or str(run_dir.path.parent.parent / "known_hosts")
    quoted = '"' + known.replace("%", "%%").replace('"', '\\"') + '"'
    return shlex.join(
        [
            "-o",
            f"StrictHostKeyChecking={_POLICIES[spec.host_key_policy]}",
            "-o",
            f"UserKnownHostsFile={quoted} ~/.ssh/known_hosts",
        ]
    )


def _playbook(run_dir: RunDir, spec: JobSpec) -> str:
    path = _inside(run_dir.project, spec.playbook)
    if path is None:
        raise CannotStart("project", f"playbook {spec.playbook!r} leads out of the project")
    if not path.is_file():
        raise CannotStart("project", f"playbook {spec.playbook!r} is not in the project")
    return f"./{spec.playbook}" if spec.playbook.startswith("-") else spec.playbook


def _inventory(run_dir: RunDir, spec: JobSpec) -> Path:
    if spec.inventory_path is None:
        run_dir.inventory.mkdir(mode=0o700, exist_ok=True)
        path = run_dir.inventory / "hosts"
        write_private(path, spec.inventory or "")
        return path
    return inventory_in_project(run_dir, spec)


def inventory_in_project(run_dir: RunDir, spec: JobSpec) -> Path:
    """The inventory that ``inventory_path`` names.

    Raises:
        CannotStart: it is not there, or leads out of the project.
    """
    found = _inside(run_dir.project, spec.inventory_path or "")
    if found is None:
        raise CannotStart(
            "inventory", f"inventory {spec.inventory_path!r} leads out of the project"
        )
    if not found.exists():
        raise CannotStart("inventory", f"inventory {spec.inventory_path!r} is not in the project")
    return run_dir.project / str(spec.inventory_path)


def _inside(tree: Path, name: str) -> Path | None:
    """The real path of a name in a tree; None if it is empty, absolute or leads out of the tree."""
    if not name or "\0" in name or name.startswith("/"):
        return None
    real, root = Path(os.path.realpath(tree / name)), Path(os.path.realpath(tree))
    return real if real.is_relative_to(root) else None


def _selection(spec: JobSpec) -> list[str]:
    """Limit and tags. Ansible reads a file for every part of a limit that begins with ``@``."""
    parts = re.split(r"[,:]", spec.limit_pattern)
    if spec.limit_pattern.startswith("-") or any(part.strip().startswith("@") for part in parts):
        raise CannotStart("refused", "limit: must not begin with '-', nor any part of it with '@'")
    chosen = [f"--limit={spec.limit_pattern}"] if spec.limit_pattern else []
    for option, tags in (("--tags", spec.tags), ("--skip-tags", spec.skip_tags)):
        if tags:
            chosen.append(f"{option}={','.join(tags)}")
    if any("\0" in option for option in chosen):
        raise CannotStart("refused", "limit and tags: must not hold NUL")
    return chosen


def yaml_text(value: Any, *, unsafe: bool) -> str:
    """JSON-like YAML in ASCII; with ``unsafe`` every string is marked as never to be templated."""
    if isinstance(value, Mapping):
        pairs = (f"{_key(str(k))}: {yaml_text(v, unsafe=unsafe)}" for k, v in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(yaml_text(each, unsafe=unsafe) for each in value) + "]"
    if isinstance(value, str):
        return f"!unsafe {_quoted(value)}" if unsafe else _quoted(value)
    if isinstance(value, float):
        return f'!!float "{value!r}"'.replace("inf", ".inf").replace("nan", ".nan")
    return json.dumps(value)


def _quoted(text: str) -> str:
    """A double-quoted YAML scalar. JSON's surrogate pairs would come back as two characters."""
    return '"' + re.sub(r"[^ !#-\[\]-~]", lambda found: f"\\U{ord(found[0]):08x}", text) + '"'


def _key(text: str) -> str:
    """A key; a long one is said to be one, as YAML 1.2 section 7.4.3 wants it from 1,024 on."""
    quoted = _quoted(text)
    return f"? {quoted} " if len(quoted) > 1000 else quoted


def _home(run_dir: RunDir) -> Path:
    return run_dir.private / "home"


def _temporary(run_dir: RunDir) -> Path:
    return run_dir.private / "tmp"
