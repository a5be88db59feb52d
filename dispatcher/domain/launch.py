"""What a run may be asked for, checked before anything is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from dispatcher.domain import launch_checks as check
from dispatcher.domain.host_pattern import PatternError, resolve
from dispatcher.domain.inventory import Encrypted, Inventory, InventoryError, parse_inventory
from dispatcher.domain.prompts import ids_problem
from dispatcher.errors import InvalidRequest

#: Forks when none are asked for: Ansible's own default.
DEFAULT_FORKS: Final = 5


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
        credentials: numbers of the credentials that it logs in with.
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
    credentials: tuple[int, ...] = ()


_RULES: Final[Mapping[str, Callable[[Any], str | list[str] | None]]] = {
    "playbook": check.path_problem,
    "bundle_digest": check.digest_problem,
    "inventory": lambda v: None if v is None else check.inventory_text_problem(v),
    "inventory_path": lambda v: None if v is None else check.inventory_path_problem(v),
    "name": lambda v: check.line_problem(v, check.LONGEST_NAME),
    "limit": check.limit_problem,
    "extra_vars": check.variables_problems,
    "secret_vars": check.variables_problems,
    "tags": check.tags_problem,
    "skip_tags": check.tags_problem,
    "check_mode": check.flag_problem,
    "diff_mode": check.flag_problem,
    "forks": lambda v: check.number_problem(v, 0, check.MOST_FORKS),
    "verbosity": lambda v: check.number_problem(v, 0, 5),
    "timeout": lambda v: check.number_problem(v, 0, check.LONGEST_TIMEOUT),
    "idle_timeout": lambda v: check.number_problem(v, 0, check.LONGEST_TIMEOUT),
    "allow_no_hosts": check.flag_problem,
    "max_unreachable": check.tolerance_problem,
    "max_failed": check.tolerance_problem,
    "host_lock": lambda v: check.word_problem(v, ("none", "shared", "exclusive")),
    "host_key_policy": lambda v: check.word_problem(v, ("accept-new", "strict")),
    "priority": lambda v: check.number_problem(v, -check.HIGHEST_PRIORITY, check.HIGHEST_PRIORITY),
    "instance_groups": check.groups_problem,
    "credentials": ids_problem,
}


@dataclass(frozen=True)
class Targets:
    """The hosts of a run, as far as they can be known when it is accepted.

    Attributes:
        count: after the limit; None when only Ansible can say.
        lock_keys: what the run holds while it is active; empty when it takes no host lock.
    """

    count: int | None
    lock_keys: tuple[str, ...]


def validate(request: RunRequest, *, cpu: Callable[[], float]) -> Targets:
    """Check a request as far as that is possible without the bundle.

    Args:
        cpu: a clock of CPU seconds; bounds what a host pattern may cost.

    Returns:
        The hosts of the run, which are found on the way.

    Raises:
        InvalidRequest: every field that is wrong, with what is wrong in it.
    """
    problems: dict[str, list[str]] = {}
    for each in fields(request):
        found = _RULES[each.name](getattr(request, each.name))
        if found:
            problems[each.name] = [found] if isinstance(found, str) else found
    if (request.inventory is None) == (request.inventory_path is None):
        problems.setdefault("inventory", []).append(
            "exactly one of inventory and inventory_path is required"
        )
    if "extra_vars" not in problems and "secret_vars" not in problems:
        both = sorted(set(request.extra_vars) & set(request.secret_vars))
        if both:
            problems["secret_vars"] = [f"{name}: given in extra_vars too" for name in both]
    inventory = None
    hosts: tuple[str, ...] = ()
    try:
        if request.inventory is not None and "inventory" not in problems:
            inventory = parse_inventory(request.inventory)
        if inventory is not None and "limit" not in problems:
            hosts = resolve("all", request.limit, inventory, cpu=cpu)
    except InventoryError as error:
        problems["inventory"] = [str(error)]
    except PatternError as error:
        problems["limit"] = [str(error)]
    if problems:
        raise InvalidRequest(problems)
    return Targets(
        count=None if inventory is None else len(hosts),
        lock_keys=_lock_keys(request, inventory, hosts),
    )


def impact(request: RunRequest, hosts: int | None) -> int:
    """Units of capacity a run takes: one for each host worked on at once, and one for itself.

    Args:
        hosts: number of hosts after the limit; None when that is unknown.
    """
    return impact_of(request.forks, hosts)


def impact_of(forks: int, hosts: int | None) -> int:
    """:func:`impact`, by number of forks; 0: Ansible's default."""
    most = forks or DEFAULT_FORKS
    return (most if hosts is None else min(hosts, most)) + 1


def effective_host_lock(request: RunRequest) -> str:
    """The lock that is taken: a run in check mode changes nothing, so it shares."""
    if request.check_mode and request.host_lock == "exclusive":
        return "shared"
    return request.host_lock


def _lock_keys(
    request: RunRequest, inventory: Inventory | None, hosts: tuple[str, ...]
) -> tuple[str, ...]:
    """Two runs that may touch one machine share a key (docs/scheduling.md, "Hosts of a run").

    A run whose machines are not all known holds its whole inventory: the inventory itself, and
    every machine of it that is known.
    """
    if request.host_lock == "none":
        return ()
    if inventory is None:
        place = f"{request.bundle_digest}/{request.inventory_path}"
        return (f"inventory:{hashlib.sha256(place.encode()).hexdigest()}",)
    given = dict(request.extra_vars) | {name: Encrypted("secret") for name in request.secret_vars}
    # which hosts a subscript picks is certain only when Ansible picks them
    if "[" in request.limit:
        hosts = inventory.hosts
    addresses = {inventory.connection_address(host, given) for host in hosts}
    keys = set()
    if None in addresses:
        keys.add(f"inventory:{hashlib.sha256(str(request.inventory).encode()).hexdigest()}")
        addresses = {inventory.connection_address(host, given) for host in inventory.hosts}
    keys |= {f"host:{address}" for address in addresses if address is not None}
    return tuple(sorted(keys))
