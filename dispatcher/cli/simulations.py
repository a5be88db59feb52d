"""``dispatcher simulate`` and ``dispatcher trace``: a cluster played forward, and what it is fed with."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from dispatcher import clock
from dispatcher import settings as settings_module
from dispatcher.cli import output
from dispatcher.cli.databases import engine_of, with_servers
from dispatcher.db import trace_rows
from dispatcher.db.engine import transaction, unavailable_when_away
from dispatcher.errors import ConfigurationError
from schedulers.core.simulate import (
    Report,
    Started,
    Waits,
    report,
    simulate,
    with_more_nodes,
    with_node_count,
)
from schedulers.core.trace import VERSION, Trace, TraceError, read_trace, write_line

#: Seconds between two lines that say how far a simulation is.
SAY_EVERY = 2.0
_AGO = re.compile(r"(\d{1,4})(h|d|w)")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}

trace_app = typer.Typer(help="Traces of what a cluster has run.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the command and the noun."""
    app.command("simulate")(simulate_trace)
    app.add_typer(trace_app, name="trace")


def simulate_trace(
    trace: Annotated[Path, typer.Argument(help="Trace file: JSON lines (docs/scheduling.md).")],
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="So many nodes instead of the trace's.")
    ] = None,
    more_nodes: Annotated[
        list[int] | None,
        typer.Option("--more-nodes", min=1, help="Also with so many more; repeatable."),
    ] = None,
    period: Annotated[
        float, typer.Option("--period", min=0.01, help="Seconds between two passes.")
    ] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Play a trace through the planners: waits of tenants and groups, and use of the cluster."""
    # a million short-lived values in no cycles: looking for garbage takes as long as planning
    gc.disable()
    played = [
        _Played.of(trace, nodes, more, period) for more in (0, *sorted(set(more_nodes or ())))
    ]
    if as_json:
        output.print_json({"simulations": [each.as_json() for each in played]})
        return
    output.print_table(
        ("NODES", "CAPACITY", "JOBS", "NOT STARTED", "UTILIZATION", "HOURS"),
        (each.summary() for each in played),
    )
    columns = [f"{part} ({each.nodes})" for each in played for part in ("P50", "P95", "MAX")]
    output.emit("\nSeconds that jobs waited (with so many nodes):\n")
    output.print_table(("TENANT OR GROUP", "JOBS", *columns), _waits(played))


class _Played:
    """One simulation: what was read and what came out."""

    def __init__(self, trace: Trace, made: Report, jobs: int, nodes: int) -> None:
        self.tenants = {trace.tenants[i]: waits for i, waits in made.tenants.items()}
        self.groups = {trace.groups[i]: waits for i, waits in made.groups.items()}
        self.made = made
        self.jobs = jobs
        self.nodes = nodes
        self.started = sum(waits.total for waits in self.tenants.values())

    @classmethod
    def of(cls, path: Path, nodes: int | None, more: int, period: float) -> _Played:
        """Read the trace anew and play it.

        Raises:
            ConfigurationError: the file cannot be read, or a line of it is wrong.
        """
        try:
            with path.open(encoding="utf-8") as file:
                progress = _Progress(path, more)
                trace = read_trace(progress.lines(file))
                world = with_more_nodes(with_node_count(trace.world, nodes), more)
                starts = simulate(world, progress.counted(trace.arrivals), period=period)
                made = report(world, progress.shown(starts))
                progress.end()
                return cls(trace, made, progress.jobs, len(world.nodes))
        except TraceError as error:
            raise ConfigurationError(f"{path}, line {error.line}: {error}") from None
        except (OSError, UnicodeDecodeError) as error:
            words = getattr(error, "strerror", None) or str(error)
            raise ConfigurationError(f"{path}: {words}") from None

    def summary(self) -> tuple[object, ...]:
        """A row of the first table."""
        hours = (self.made.ended - self.made.began) / 3600
        return (
            self.nodes,
            self.made.capacity,
            self.jobs,
            self.jobs - self.started,
            f"{self.made.utilization:.1%}",
            f"{max(0.0, hours):.2f}",
        )

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {
            "nodes": self.nodes,
            "capacity": self.made.capacity,
            "jobs": self.jobs,
            "not_started": self.jobs - self.started,
            "utilization": round(self.made.utilization, 4),
            "seconds": max(0.0, self.made.ended - self.made.began),
            "tenants": {name: _numbers(waits) for name, waits in sorted(self.tenants.items())},
            "groups": {name: _numbers(waits) for name, waits in sorted(self.groups.items())},
        }


def _numbers(waits: Waits) -> dict[str, float]:
    return {
        "jobs": waits.total,
        "p50": round(waits.quantile(0.5), 1),
        "p95": round(waits.quantile(0.95), 1),
        "max": round(waits.longest, 1),
    }


def _waits(played: Sequence[_Played]) -> Iterator[Sequence[object]]:
    for what in ("tenants", "groups"):
        for name in sorted({name for each in played for name in getattr(each, what)}):
            found = [getattr(each, what).get(name, Waits()) for each in played]
            numbers = [
                f"{value:.0f}"
                for waits in found
                for value in (waits.quantile(0.5), waits.quantile(0.95), waits.longest)
            ]
            yield (f"{what[:-1]} {name}", found[0].total, *numbers)


class _Progress:
    """How far a simulation is, on stderr: one line that is written anew on a terminal."""

    def __init__(self, path: Path, more: int) -> None:
        self._size = max(1, path.stat().st_size)
        self._label = f"with {more} more nodes: " if more else ""
        self._read = 0
        self._due = clock.monotonic() + SAY_EVERY
        self._started = 0
        self.jobs = 0

    def lines(self, file: TextIO) -> Iterator[str]:
        """The file's lines, counted."""
        for line in file:
            self._read += len(line)
            yield line

    def counted(self, arrivals: Iterator[Any]) -> Iterator[Any]:
        """The jobs, counted."""
        for arrival in arrivals:
            self.jobs += 1
            yield arrival

    def shown(self, starts: Iterator[Started]) -> Iterator[Started]:
        """The starts; now and then a line about them."""
        for started in starts:
            self._started += 1
            if not self._started & 1023 and clock.monotonic() >= self._due:
                self._due = clock.monotonic() + SAY_EVERY
                self._say()
            yield started

    def end(self) -> None:
        """Clear the line."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _say(self) -> None:
        words = f"{self._label}{self._read / self._size:.0%} read, {self._started:,} jobs started"
        if sys.stderr.isatty():
            print(f"\r\x1b[Kdispatcher: {words}", end="", file=sys.stderr, flush=True)
        else:
            output.say(words)


@trace_app.command("export")
def export_trace(
    file: Annotated[Path, typer.Argument(help="Where to write it.")],
    since: Annotated[
        str | None,
        typer.Option("--since", help="Only jobs created since: 12h, 7d, 2w, or an ISO 8601 time."),
    ] = None,
) -> None:
    """Write what this cluster has run as a trace for `dispatcher simulate`."""
    begin = None if since is None else _moment(since)
    settings = with_servers(settings_module.load())
    partial = file.with_name(f"{file.name}.part")
    try:
        with (
            partial.open("w", encoding="utf-8") as out,
            engine_of(settings) as engine,
            unavailable_when_away(),
            transaction(engine, statement_timeout=300, idle_timeout=300) as connection,
        ):
            count = _write(connection, out, begin)
        os.replace(partial, file)
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    output.say(f"{file}: {count:,} jobs")


def _write(connection: Any, out: TextIO, since: datetime | None) -> int:
    """The lines of a trace; how many jobs are in it."""
    jobs = trace_rows.read_ended_jobs(connection, since)
    first = next(jobs, None)
    began = 0.0 if first is None else first.created
    out.write(write_line(trace=VERSION, began=began))
    for rows in (trace_rows.read_tenants, trace_rows.read_groups, trace_rows.read_nodes):
        out.writelines(write_line(**row) for row in rows(connection))
    count = 0
    row = first
    while row is not None:
        out.write(_job_line(row, began))
        count += 1
        row = next(jobs, None)
    return count


def _job_line(row: Any, began: float) -> str:
    fields = {
        "job": row.name,
        "at": round(row.created - began, 3),
        "duration": round(max(0.0, row.duration), 3),
        "tenant": row.tenant,
        "impact": row.task_impact,
        "forks": row.forks,
        "groups": list(row.groups),
    }
    if row.priority:
        fields["priority"] = row.priority
    if row.host_lock != "none":
        fields |= {"host_lock": row.host_lock, "lock_keys": list(row.lock_keys)}
    if not row.allow_simultaneous and row.job_template_id is not None:
        fields |= {"template": str(row.job_template_id), "allow_simultaneous": False}
    return write_line(**fields)


def _moment(word: str) -> datetime:
    ago = _AGO.fullmatch(word)
    if ago is not None:
        return clock.now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise ConfigurationError(
            f"--since: neither 12h, 7d, 2w nor an ISO 8601 time: {word}"
        ) from None
    return moment.astimezone() if moment.tzinfo is None else moment
