"""Which files of a directory stay out of a bundle: gitignore's rules, without its rarities.

``#`` comments · ``!`` takes back · a trailing ``/`` matches directories only · a pattern with a
``/`` elsewhere is anchored at the directory's top, others match at any depth · ``*``, ``?``,
``[a-z]`` stay within one name, ``**`` crosses names. The last pattern that matches decides.
Nothing inside an ignored directory can be taken back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

#: Never part of a run; a line like ``!.git`` in ``.dispatcherignore`` takes one back.
ALWAYS_IGNORED = (".git", "__pycache__", "*.retry", ".venv")
#: Name of the file with further patterns, at the top of the packed directory.
IGNORE_FILE = ".dispatcherignore"


@dataclass(frozen=True)
class _Pattern:
    matches: re.Pattern[str]
    takes_back: bool
    directories_only: bool


class IgnoreRules:
    """Patterns in order; the built-in ones come first."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        parsed = (_parse(line) for line in (*ALWAYS_IGNORED, *lines))
        self._patterns = [pattern for pattern in parsed if pattern is not None]

    def ignores(self, path: str, *, is_directory: bool) -> bool:
        """Whether ``path`` (relative, ``/`` as separator) stays out of the bundle.

        The caller does not descend into an ignored directory.
        """
        ignored = False
        for pattern in self._patterns:
            if pattern.directories_only and not is_directory:
                continue
            if pattern.matches.fullmatch(path):
                ignored = not pattern.takes_back
        return ignored


def _parse(line: str) -> _Pattern | None:
    text = line.rstrip()
    if not text or text.startswith("#"):
        return None
    takes_back = text.startswith("!")
    text = text.removeprefix("!").removeprefix("\\")
    directories_only = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    if not text:
        return None
    expression = _expression(text)
    if not anchored:
        expression = f"(?:.*/)?{expression}"
    return _Pattern(re.compile(expression, re.DOTALL), takes_back, directories_only)


def _expression(glob: str) -> str:
    """The glob as a regular expression over whole paths."""
    parts: list[str] = []
    at = 0
    while at < len(glob):
        if glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
            parts.append("(?:.*/)?")
            at += 3
        elif glob.startswith("**", at):
            parts.append(".*")
            at += 2
        elif glob[at] == "[" and (end := glob.find("]", at + 2)) != -1:
            members = glob[at + 1 : end].replace("\\", "\\\\")
            parts.append(f"[^{members[1:]}]" if members[0] in "!^" else f"[{members}]")
            at = end + 1
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(glob[at], re.escape(glob[at])))
            at += 1
    return "".join(parts)
