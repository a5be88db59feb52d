"""What people and programs see: a job's log on stdout, everything about it on stderr.

On a terminal colours are kept and every other control sequence is dropped, because the log comes
from managed hosts; elsewhere colours are dropped too.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from dispatcher.client.answers import JobEvent

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*(?P<final>[@-~])"  # CSI; "m" sets colours
    r"|\x1b[\]P_^X].*?(?:\x07|\x1b\\)"  # OSC, DCS, APC, PM, SOS with their text
    r"|\x1b[ -/]*[0-~]?",  # other escapes
    re.DOTALL,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")


def printable(text: str, *, colors: bool) -> str:
    """The text without control sequences, colours excepted where wanted; tabs and lines stay."""

    def keep(found: re.Match[str]) -> str:
        return found.group() if colors and found["final"] == "m" else ""

    return _CONTROL.sub("", _SEQUENCE.sub(keep, text.replace("\r\n", "\n")))


class OutputClosed(Exception):
    """Whoever read stdout has gone."""


def emit(text: str) -> None:
    """Write to stdout, now.

    Raises:
        OutputClosed: nobody reads it any more.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def wants_colors(stream: TextIO) -> bool:
    """Whether colour codes do good there (https://no-color.org is kept to)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def say(message: str) -> None:
    """One line about what happens, on stderr."""
    print(f"dispatcher: {printable(message, colors=False)}", file=sys.stderr, flush=True)


class Log:
    """A job's log on stdout. An event's text may end within a line, which the next one goes on."""

    def __init__(self) -> None:
        self._colors = wants_colors(sys.stdout)
        self._within_line = False

    def write(self, event: JobEvent) -> None:
        """Print an event's part of the log, as far as it has one."""
        text = printable(event.stdout, colors=self._colors) + ("\n" if event.lines > 0 else "")
        if text:
            emit(text)
            self._within_line = not text.endswith("\n")

    def end(self) -> None:
        """End a line that the log left open."""
        if self._within_line:
            emit("\n")
            self._within_line = False


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """One value on one line."""
    emit(json.dumps(value, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Aligned columns; on anything but a terminal as wide as they need to be."""
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(printable(str(cell), colors=False) for cell in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)
    with console.capture() as printed:
        console.print(table, crop=False)
    emit("\n".join(line.rstrip() for line in printed.get().splitlines()) + "\n")
