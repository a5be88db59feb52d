"""``dispatcher explain``: why a job waits and until when, where it is, or what became of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from dispatcher import clock
from dispatcher import settings as settings_module
from dispatcher.cli import output
from dispatcher.cli.server import connect
from dispatcher.client.answers import Explanation


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain")(explain)


def explain(
    job_id: Annotated[int, typer.Argument(help="Number of the job.", min=1)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say why a job waits: everything that blocks it, its position, when it may start."""
    with connect(settings_module.load()) as client:
        found = client.explain(job_id)
    if as_json:
        output.print_json(found.raw)
        return
    output.emit("".join(f"{line}\n" for line in _lines(found, clock.now())))


def _lines(found: Explanation, now: datetime) -> list[str]:
    head = f"job {found.id} is {found.status}"
    if not found.blockers:
        lines = [f"{head}. {output.printable(found.words, colors=False)}"]
    else:
        lines = [f"{head}:"]
        for number, blocker in enumerate(found.blockers, 1):
            sentence = output.printable(blocker.words, colors=False)
            lines.append(f"  {number}. {sentence} [{blocker.code}]")
    if found.position is not None:
        lines.append(f"position: {found.position}")
    if found.status == "pending":
        start = found.expected_start
        lines.append(f"expected start: {'not known' if start is None else _when(start, now)}")
    if found.expected_end is not None:
        lines.append(f"expected end: {_when(found.expected_end, now)}")
    return lines


def _when(moment: datetime, now: datetime) -> str:
    seconds = (moment - now).total_seconds()
    if seconds < -1:
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC, {_duration(-seconds)} ago"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC, in {_duration(max(0.0, seconds))}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"
