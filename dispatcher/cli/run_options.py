"""The options of ``dispatcher run``, in two groups: Ansible's own, and ours."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class HostLock(StrEnum):
    """Whether other runs may touch the hosts meanwhile."""

    NONE = "none"
    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class HostKeyPolicy(StrEnum):
    """What an unknown SSH host key means."""

    ACCEPT_NEW = "accept-new"
    STRICT = "strict"


def _ansible(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="As ansible-playbook", **more)


def _own(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="The dispatcher's own", **more)


Playbook = Annotated[Path, typer.Argument(help="The playbook; its directory is packed.")]

Inventory = Annotated[
    list[str] | None,
    _ansible("--inventory", "-i", help="Inventory file, or hosts with a comma (-i host,)."),
]
Limit = Annotated[str, _ansible("--limit", "-l", help="Host pattern.")]
ExtraVars = Annotated[
    list[str] | None,
    _ansible(
        "--extra-vars",
        "-e",
        help="key=value, @file, or a JSON or YAML mapping; may be repeated.",
    ),
]
Tags = Annotated[
    list[str] | None, _ansible("--tags", "-t", help="Tags to run, separated by commas.")
]
SkipTags = Annotated[
    list[str] | None, _ansible("--skip-tags", help="Tags to skip, separated by commas.")
]
Check = Annotated[bool, _ansible("--check", "-C", help="Change nothing.")]
Diff = Annotated[bool, _ansible("--diff", "-D", help="Show differences.")]
Forks = Annotated[int, _ansible("--forks", "-f", min=0, help="Hosts at once; 0: Ansible's 5.")]
Verbose = Annotated[int, _ansible("--verbose", "-v", count=True, help="Say more; up to -vvvvv.")]

SecretVar = Annotated[
    list[str] | None,
    _own(
        "--secret-var",
        metavar="NAME",
        help="Extra variable whose value is read from the environment variable NAME, stored"
        " encrypted and masked in the output; may be repeated.",
    ),
]
Credential = Annotated[
    list[str] | None,
    _own(
        "--credential",
        metavar="NAME",
        help="Credential of the server that the run logs in with; may be repeated.",
    ),
]
Directory = Annotated[
    Path | None,
    _own(
        "--directory",
        help="Directory to pack, with the playbook below it; default the playbook's own.",
    ),
]
Name = Annotated[str, _own("--name", help="Name of the job; default the playbook's.")]
Priority = Annotated[int, _own("--priority", help="Higher starts first.")]
InstanceGroup = Annotated[
    list[str] | None,
    _own(
        "--instance-group",
        help="Group of nodes to run on; may be repeated, in order of preference.",
    ),
]
Timeout = Annotated[
    int, _own("--timeout", min=0, help="Seconds after which the run is stopped; 0: none.")
]
IdleTimeout = Annotated[
    int,
    _own(
        "--idle-timeout",
        min=0,
        help="Seconds without output after which it is stopped; 0: the node's setting.",
    ),
]
AllowNoHosts = Annotated[
    bool, _own("--allow-no-hosts", help="A run that matches no host is successful.")
]
MaxUnreachable = Annotated[
    str, _own("--max-unreachable", help="Unreachable hosts tolerated: a number or a percentage.")
]
MaxFailed = Annotated[
    str, _own("--max-failed", help="Failed hosts tolerated: a number or a percentage.")
]
HostLockOption = Annotated[
    HostLock, _own("--host-lock", help="Keep other runs with a lock off these hosts meanwhile.")
]
HostKeyPolicyOption = Annotated[
    HostKeyPolicy, _own("--host-key-policy", help="What an unknown SSH host key means.")
]
IdempotencyKey = Annotated[
    str | None,
    _own(
        "--idempotency-key",
        help="A word of your own for this run: asked for again, the same job answers.",
    ),
]
Detach = Annotated[bool, _own("--detach", help="Print the job's number and do not wait for it.")]
AsJson = Annotated[
    bool,
    _own("--json", help="Print a JSON object a line: each event, each new state of the job."),
]
