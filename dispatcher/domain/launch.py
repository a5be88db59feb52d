"""What a run may be asked for, checked before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RunRequest:
    """A playbook run as a caller asks for it; :func:`validate` says what is allowed.

    Attributes:
        playbook: path of the playbook inside the bundle, relative, ``/`` as separator.
        bundle_digest: sha256 (hex) of the content bundle that holds it.
        inventory: text of an INI or YAML inventory; or None with ``inventory_path``.
        inventory_path: path of an inventory inside the bundle; exactly one of the two is given.
        name: shown to people; default the playbook's name.
        limit: host pattern; empty: all.
        extra_vars: a mapping, passed as unsafe text.
        secret_vars: extra variables whose values are encrypted at rest, masked in output and
            never shown.
        tags, skip_tags: Ansible tags.
        check_mode, diff_mode: ``--check`` and ``--diff``.
        forks: 0: Ansible's default (5).
        verbosity: 0 to 5.
        timeout, idle_timeout: seconds; 0: none (``idle_timeout``: the node's setting).
        allow_no_hosts: a run that matches no host is successful.
        max_unreachable, max_failed: tolerated hosts, a number or a percentage (``"3"``, ``"10%"``).
        host_lock: ``none``, ``shared`` or ``exclusive``; check mode turns exclusive into shared.
        host_key_policy: ``accept-new`` or ``strict``.
        priority: higher starts first within a tenant.
        instance_groups: names, in order of preference; empty: ``default``.
    """

    playbook: str
    bundle_digest: str
    inventory: str | None = None
    inventory_path: str | None = None
    name: str = ""
    limit: str = ""
    extra_vars: Mapping[str, Any] = field(default_factory=dict)
    secret_vars: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    check_mode: bool = False
    diff_mode: bool = False
    forks: int = 0
    verbosity: int = 0
    timeout: int = 0
    idle_timeout: int = 0
    allow_no_hosts: bool = False
    max_unreachable: str = "0"
    max_failed: str = "0"
    host_lock: str = "none"
    host_key_policy: str = "accept-new"
    priority: int = 0
    instance_groups: tuple[str, ...] = ()
