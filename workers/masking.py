"""Values of secret variables are replaced wherever they turn up in what a run says.

By value, because a secret leaves its variable: a task name, an argument, a module's answer. Each
value is looked for as it is, with the line ends of a terminal, escaped as JSON (once and twice,
with and without non-ASCII characters) and as Python, and, when it has several lines, line by line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MASK = "$encrypted$"
#: Shorter values are words of every output: masking them would show where they are.
MIN_VALUE = 3
#: Shorter lines of a secret of several lines are not masked by themselves.
MIN_LINE = 6


def secret_values(variables: Mapping[str, Any]) -> Iterator[str]:
    """Every string and number inside secret variables, however deep."""
    pending: list[Any] = list(variables.values())
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            pending += value.values()
        elif isinstance(value, list | tuple):
            pending += value
        elif isinstance(value, str):
            yield value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield str(value)


class Masker:
    """Replaces a fixed set of values.

    Args:
        values: secrets; those under :data:`MIN_VALUE` characters are passed over.
    """

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in set(values) for form in _forms(value)}
        # the longest first: a value may hold another
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, self._forms))) if forms else None
        self._numbers = {form for form in forms if re.fullmatch(r"[-+.0-9e]+", form)}

    def found_in(self, text: str) -> bool:
        """Whether any form of any value is in a text; a JSON text may be asked about as it is."""
        return any(form in text for form in self._forms)

    def text(self, text: str) -> str:
        """The text with every value replaced."""
        if self._pattern is None or not self.found_in(text):
            return text
        return self._pattern.sub(MASK, text)

    def number(self, number: float) -> Any:
        """The number, or the mask when it is a secret."""
        return MASK if str(number) in self._numbers else number


def _forms(value: str) -> Iterator[str]:
    if len(value.strip()) < MIN_VALUE:
        return
    bare = value.strip("\r\n")
    lines = [line.strip() for line in bare.splitlines()]
    pieces = [bare] + [line for line in lines if len(line) >= MIN_LINE] * (len(lines) > 1)
    for piece in pieces:
        yield piece
        yield piece.replace("\r\n", "\n").replace("\n", "\r\n")
        yield repr(piece)[1:-1]
        for ascii_only in (True, False):
            once = json.dumps(piece, ensure_ascii=ascii_only)[1:-1]
            yield once
            yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
