"""Exceptions as text for logs, without the values that a database puts into its own.

PostgreSQL's DETAIL holds whole rows and SQLAlchemy's text the parameters; with extra vars and
inventories in the rows, that is where a password would get into a log.
"""

from __future__ import annotations

import re
import traceback
from typing import Any, Final

#: SQLSTATE class of bad values: already the first line repeats the value, in quotes.
_BAD_VALUE: Final = "22"
_QUOTED: Final = re.compile(r'".*')


def is_of_database(error: BaseException) -> bool:
    """Whether SQLAlchemy or the driver raised it. Asked by attribute: nothing is imported here."""
    return hasattr(error, "pgcode") or (hasattr(error, "orig") and hasattr(error, "statement"))


def in_short(error: BaseException) -> str:
    """An error in one line: its kind, a database's code, its first line."""
    words = str(error).strip()
    line = words.splitlines()[0] if words else ""
    kind = type(error).__name__
    if is_of_database(error):
        code = getattr(getattr(error, "orig", None) or error, "pgcode", None)
        if code is not None:
            kind += f" [{code}]"
            if code.startswith(_BAD_VALUE):
                line = _QUOTED.sub('"…"', line)
    return f"{kind}: {line}" if line else kind


def with_traceback(error: BaseException) -> str:
    """An error, its traceback and what it came from, as Python prints them, but without values."""
    return "\n".join(_lines(error, set())).rstrip("\n")


def _lines(error: BaseException, seen: set[int]) -> list[str]:
    seen.add(id(error))
    lines: list[str] = []
    cause, context = error.__cause__, error.__context__
    if cause is not None and id(cause) not in seen:
        lines = [*_lines(cause, seen), "\nThe above exception was the direct cause of:\n"]
    elif context is not None and not error.__suppress_context__ and id(context) not in seen:
        lines = [*_lines(context, seen), "\nDuring handling of it, another exception occurred:\n"]
    if error.__traceback__ is not None:
        lines.append("Traceback (most recent call last):")
        lines += [entry.rstrip("\n") for entry in traceback.format_tb(error.__traceback__)]
    lines.append(_last_line(error))
    if isinstance(error, BaseExceptionGroup):
        for number, part in enumerate(error.exceptions, 1):
            lines += [f"\n- part {number} of it:", *_lines(part, seen)]
    return lines


def _last_line(error: BaseException) -> str:
    if is_of_database(error):
        return f"{type(error).__module__}.{in_short(error)}"
    return "".join(traceback.format_exception_only(type(error), error)).rstrip("\n")


def without_values(_logger: Any, _method: str, record: Any) -> Any:
    """A processor: exceptions among a record's fields become their short text."""
    for name, value in record.items():
        if isinstance(value, BaseException) and name != "exc_info":
            record[name] = in_short(value)
    return record
