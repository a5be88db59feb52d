"""What a text may hold that goes into the database and onto a command line."""

from __future__ import annotations

import re
from typing import Final

#: Longest value that is repeated in a message.
_LONGEST_SHOWN: Final = 80

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_IN_LINES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def has_control(value: str) -> bool:
    """Whether a one-line text holds a control character (line ends too) or half a surrogate pair."""
    return bool(_CONTROL.search(value) or _SURROGATE.search(value))


def has_control_in_lines(value: str) -> bool:
    """The same for a text of several lines, where tabs and line ends are welcome."""
    return bool(_CONTROL_IN_LINES.search(value) or _SURROGATE.search(value))


def has_unstorable(value: str) -> bool:
    """Whether PostgreSQL would refuse the text: a NUL, or half a surrogate pair."""
    return "\x00" in value or bool(_SURROGATE.search(value))


def shown(value: object) -> str:
    """A value as it may stand in a message: in quotes, printable, not longer than a line."""
    try:
        text = ascii(value) if isinstance(value, str) and has_control(value) else repr(value)
    except (ValueError, RecursionError):  # a number of very many digits, a very deep list
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
