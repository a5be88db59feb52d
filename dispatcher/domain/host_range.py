"""Names of hosts as inventories write them: a port at the end, ranges in square brackets.

What Ansible accepts is accepted, oddities included, because a job must count the hosts that
Ansible will work on; a test compares the two over a corpus.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from ipaddress import IPv6Address
from typing import Final

from dispatcher.domain.inventory_data import InventoryError
from dispatcher.domain.text import shown

#: Most hosts that one inventory may hold.
MOST_HOSTS: Final = 100_000
#: Most ranges in one name.
_MOST_RANGES: Final = 20

_RANGE = re.compile(r"\[(?:[a-z]:[a-z]|[0-9]+:[0-9]+)(?::[0-9]+)?\]", re.IGNORECASE)
_HEX_RANGE = re.compile(r"\[[0-9a-f]+:[0-9a-f]+(?::[0-9]+)?\]", re.IGNORECASE)
_BRACKETED_PORT = re.compile(r"\[(.+)\]:([0-9]+)")
_PORT = re.compile(r"((?:[^:\[\]]|\[[^\]]*\])*):([0-9]+)")
_LABEL = re.compile(r"\w[\w-]*")


def split_port(text: str) -> tuple[str, int | None]:
    """A host, or a range of them, and its port.

    A colon separates a port only if what stands before it is a host name or an address; otherwise
    the whole text is the name.
    """
    host, port = text, None
    for form in (_BRACKETED_PORT, _PORT):
        found = form.fullmatch(host)
        if found:
            host, port = found[1], int(found[2])
    return (host, port) if is_address(host) else (text, None)


def is_address(text: str) -> bool:
    """Whether this is a host name, an IPv4 or an IPv6 address, possibly with ranges in it."""
    labels = _RANGE.sub("0", text).split(".")
    if all(_LABEL.fullmatch(label) and label[-1] not in "_-" for label in labels):
        return True
    try:
        IPv6Address(_HEX_RANGE.sub("0", text))
    except ValueError:
        return False
    return "%" not in text


def expand(pattern: str) -> Iterator[str]:
    """The hosts of ``web[01:20]``, ``db[a:c]``, ``x[0:10:5]-[1:2]``, or of a plain name.

    Raises:
        InventoryError: a range that is not one; without a line.
    """
    if "[" not in pattern:
        yield pattern
        return
    if pattern.count("[") > _MOST_RANGES:
        raise InventoryError(f"{shown(pattern)}: more than {_MOST_RANGES} ranges")
    parts = pattern.replace("[", "|", 1).replace("]", "|", 1).split("|")
    if len(parts) != 3:
        raise InventoryError(f"{shown(pattern)}: not a range of hosts")
    head, bounds, tail = parts
    for step in _steps(pattern, bounds.split(":")):
        yield from expand(f"{head}{step}{tail}")


def _steps(pattern: str, bounds: list[str]) -> Iterator[str]:
    if len(bounds) not in (2, 3):
        raise InventoryError(
            f"{shown(pattern)}: a range is written [first:last] or [first:last:step]"
        )
    first, last, step = bounds[0] or "0", bounds[1], bounds[2] if len(bounds) == 3 else "1"
    if not last:
        raise InventoryError(f"{shown(pattern)}: the range has no end")
    width = len(first) if first[0] == "0" and len(first) > 1 else 0
    if width and width != len(last):
        raise InventoryError(
            f"{shown(pattern)}: with leading zeros, both ends of a range must be equally long"
        )
    try:
        letters = _letters(first, last)
        if letters is None:
            numbers = range(int(first), int(last) + 1, int(step))
            return (str(number).zfill(width) for number in numbers)
        if not letters:
            raise InventoryError(f"{shown(pattern)}: the range ends before it begins")
        return iter(letters[:: int(step)])
    except ValueError:
        raise InventoryError(f"{shown(pattern)}: not a range of numbers or letters") from None


def _letters(first: str, last: str) -> str | None:
    """The letters between two, both included; empty if they are in the wrong order, None if they
    are no letters."""
    begin, end = string.ascii_letters.find(first), string.ascii_letters.find(last)
    if begin < 0 or end < 0:
        return None
    return string.ascii_letters[begin : end + 1]
