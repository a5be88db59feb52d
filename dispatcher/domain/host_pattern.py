"""Host patterns, as Ansible reads them: which hosts of an inventory a pattern and a limit name.

A pattern is a list of parts: names of hosts and groups, globs, ``~`` and a regular expression,
each with an optional subscript (``web[0]``, ``web[1:3]``); ``&`` intersects, ``!`` excludes, in
that order whatever the order of writing.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import regex

from dispatcher.domain.host_range import is_address, split_port
from dispatcher.domain.inventory_data import LOCALHOST, Inventory
from dispatcher.domain.text import shown

#: CPU seconds for all regular expressions of one pattern, and more for each name they look at.
REGEX_SECONDS: Final = 0.2
REGEX_SECONDS_PER_NAME: Final = 20e-6
#: CPU seconds for a pattern as a whole.
PATTERN_SECONDS: Final = 2.0
_LONGEST_PART: Final = 1000
#: A part with one of these may name hosts besides the groups that it names.
_MAY_NAME_HOSTS_TOO: Final = frozenset(".?*[")
_GLOB: Final = frozenset("?*[")

_SUBSCRIPT = re.compile(
    r"(?P<name>.+)\[(?:(?P<one>-?[0-9]+)|(?P<first>[0-9]+)[:-](?P<last>[0-9]*))\]"
)
_PARTS_BY_COLON = re.compile(r"(?:\[[^\]]*\]|[^\s:\[\]])+")


class PatternError(ValueError):
    """A host pattern that cannot be resolved: its form, a subscript without a host, or its cost."""


def resolve(
    pattern: str, limit: str, inventory: Inventory, *, cpu: Callable[[], float]
) -> tuple[str, ...]:
    """The hosts that a play with ``hosts: pattern`` works on under ``--limit limit``.

    Args:
        pattern: of the play.
        limit: empty: none.
        inventory: where the hosts are.
        cpu: a clock of CPU seconds; bounds what a pattern may cost.

    Raises:
        PatternError: it cannot be resolved, or not at a sensible cost.
    """
    resolver = _Resolver(inventory, cpu)
    limits = split_pattern(limit)
    if pattern == "all" and limits and pattern not in inventory.positions:
        # from the few, not from the many: each of thousands of jobs may be limited to one host
        places = inventory.positions_in_all
        found = {host for host in resolver.hosts(limits) if host in places}
        return tuple(sorted(found, key=places.__getitem__))
    hosts = resolver.hosts(split_pattern(pattern))
    if limits:
        allowed = set(resolver.hosts(limits))
        hosts = [host for host in hosts if host in allowed]
    return tuple(dict.fromkeys(hosts))


def split_pattern(pattern: str) -> list[str]:
    """The parts of a pattern: separated by commas; or by colons, if it is not one host."""
    if "," in pattern:
        parts = pattern.split(",")
    elif _is_one_host(pattern):
        parts = [pattern]
    else:
        parts = _PARTS_BY_COLON.findall(pattern)
    return [part.strip() for part in parts if part.strip()]


def names_of(limit: str) -> frozenset[str] | None:
    """The names that a limit consists of: of hosts, and of groups.

    Returns:
        None when it needs to know other hosts than those: it has a glob, an expression, a subscript,
        an exclusion or an intersection, or it names all there are.
    """
    parts = split_pattern(limit)
    if not parts or any(
        part[0] in "&!~" or _GLOB & set(part) or part in ("all", "ungrouped") for part in parts
    ):
        return None
    return frozenset((*parts, *LOCALHOST))


def _is_one_host(pattern: str) -> bool:
    host, _ = split_port(pattern)
    return host != pattern or is_address(pattern)


class _Resolver:
    """Resolves the parts of one pattern and its limit, within one budget."""

    def __init__(self, inventory: Inventory, cpu: Callable[[], float]) -> None:
        self._inventory = inventory
        self._hosts = inventory.positions
        self._cpu = cpu
        self._begun = cpu()
        self._regex_left = REGEX_SECONDS + REGEX_SECONDS_PER_NAME * (
            len(inventory.hosts) + len(inventory.groups)
        )
        # the machine itself: the first such name of the inventory, else the first one asked for
        self._localhost = inventory.localhost

    def hosts(self, parts: Iterable[str]) -> list[str]:
        """The hosts of a list of parts; one may be in it twice."""
        parts = list(parts)
        plain = [part for part in parts if part[0] not in "&!"] or ["all"]
        found: dict[str, None] = {}
        for part in plain:
            found.update(dict.fromkeys(self._part(part)))
        for part in parts:
            if part[0] == "&":
                wanted = set(self._part(part))
                found = {host: None for host in found if host in wanted}
        unwanted = {host for part in parts if part[0] == "!" for host in self._part(part)}
        return [host for host in found if host not in unwanted]

    def _part(self, part: str) -> list[str]:
        if self._cpu() - self._begun > PATTERN_SECONDS:
            raise PatternError("the host pattern is too costly to resolve")
        if part in self._hosts:
            return [part]
        name = part[1:] if part[0] in "&!" else part
        if not name:
            raise PatternError(f"{shown(part)}: a pattern is missing after it")
        if len(name) > _LONGEST_PART:
            raise PatternError(f"{shown(name)}: longer than {_LONGEST_PART} characters")
        subscript = None if name[0] == "~" else _SUBSCRIPT.fullmatch(name)
        if subscript is None:
            return self._named(name)
        return _pick(self._named(subscript["name"]), subscript, name)

    def _named(self, name: str) -> list[str]:
        """Hosts of the groups of this name, and hosts of this name; duplicates stay, because
        subscripts count them."""
        groups = self._matching(name, self._inventory.groups)
        found = [host for group in groups for host in self._inventory.members(group)]
        if not groups or name[0] == "~" or _MAY_NAME_HOSTS_TOO & set(name):
            found += self._matching(name, self._hosts)
        if not found and name in LOCALHOST:
            if self._localhost is None:
                self._localhost = name
            found = [self._localhost]
        return found

    def _matching(self, name: str, names: Mapping[str, object]) -> list[str]:
        if name[0] == "~":
            return self._matching_regex(name[1:], names)
        if not _GLOB & set(name):
            return [name] if name in names else []
        try:
            matches = re.compile(fnmatch.translate(name)).match
        except (re.error, RecursionError, OverflowError):
            raise PatternError(f"{shown(name)}: not a pattern") from None
        return [each for each in names if matches(each)]

    def _matching_regex(self, expression: str, names: Iterable[str]) -> list[str]:
        try:
            re.compile(expression)  # what Ansible compiles; the other one accepts more
            matcher = regex.compile(expression)
        except (re.error, regex.error, RecursionError, OverflowError) as error:
            raise PatternError(f"{shown('~' + expression)}: {error}") from None
        found = []
        for each in names:
            before = self._cpu()
            try:
                if self._regex_left <= 0:
                    raise TimeoutError
                if matcher.match(each, timeout=self._regex_left):
                    found.append(each)
            except TimeoutError:
                raise PatternError(f"{shown('~' + expression)}: takes too long to match") from None
            self._regex_left -= self._cpu() - before
        return found


def _pick(hosts: list[str], subscript: re.Match[str], part: str) -> list[str]:
    """``[n]`` is one host and must exist; ``[n:m]`` is a range, both ends included."""
    if not hosts:
        return []
    if subscript["one"] is not None:
        index, last = int(subscript["one"]), 0
    else:
        index = int(subscript["first"])
        last = int(subscript["last"]) if subscript["last"] else len(hosts) - 1
        # an open range over a single host has 0 for its end, and that end is not "one host" there
        if last or not subscript["last"]:
            return hosts[index : last + 1]
    try:
        return [hosts[index]]
    except IndexError:
        raise PatternError(f"{shown(part)}: there is no such host in it") from None
