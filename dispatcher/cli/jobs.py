"""``dispatcher jobs``: what runs, what ran, why it waits, its output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from dispatcher import settings as settings_module
from dispatcher.cli import output
from dispatcher.cli.attached import recap, state_in_words, stay_with
from dispatcher.cli.server import connect
from dispatcher.client.answers import Job
from dispatcher.domain.status import Status

jobs_app = typer.Typer(help="Look at jobs, follow them, cancel them.", no_args_is_help=True)

JobId = Annotated[int, typer.Argument(help="Number of the job.", min=1)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the noun."""
    app.add_typer(jobs_app, name="jobs")


@jobs_app.command("list")
def list_jobs(
    status: Annotated[Status | None, typer.Option(help="Only jobs with this status.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Most jobs shown.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the newest jobs."""
    with connect(settings_module.load()) as client:
        found = client.jobs(limit=limit, status=status)
    if as_json:
        output.print_json([job.raw for job in found])
        return
    output.print_table(
        ("ID", "STATUS", "NAME", "NODE", "SECONDS", "CREATED", "EXPLANATION"),
        (
            (j.id, j.status, j.name, j.node, f"{j.elapsed:.1f}", j.created[:19], j.explanation)
            for j in found
        ),
    )


@jobs_app.command()
def show(job_id: JobId, as_json: AsJson = False) -> None:
    """Show one job, and what it did to each host (the first 200)."""
    with connect(settings_module.load()) as client:
        job = client.job(job_id)
        total, hosts = client.host_summaries(job_id, limit=200)
        ended = recap(client, job) if job.final else state_in_words(job)
    if as_json:
        output.print_json({**job.raw, "job_host_summaries": [vars(host) for host in hosts]})
        return
    output.print_table(("", ""), _facts(job, ended))
    if total:
        output.emit("\n")
        output.print_table(
            ("HOST", "OK", "CHANGED", "FAILED", "UNREACHABLE", "SKIPPED"),
            ((h.host, h.ok, h.changed, h.failures, h.unreachable, h.skipped) for h in hosts),
        )
    if total > len(hosts):
        output.say(f"{total - len(hosts)} more hosts are not shown")


def _facts(job: Job, ended: str) -> Iterator[tuple[str, Any]]:
    yield from (("id", job.id), ("name", job.name), ("status", job.status))
    optional = {
        "outcome": job.outcome,
        "explanation": job.explanation,
        "node": job.node,
        "created": job.created,
        "started": job.started,
        "finished": job.finished,
        "in short": ended,
    }
    yield from ((name, value) for name, value in optional.items() if value)


@jobs_app.command()
def stdout(
    job_id: JobId,
    color: Annotated[
        bool | None,
        typer.Option("--color/--no-color", help="Keep colour codes; default on a terminal only."),
    ] = None,
) -> None:
    """Print a job's output so far."""
    wanted = output.wants_colors(sys.stdout) if color is None else color
    with connect(settings_module.load()) as client:
        for piece in client.stdout(job_id, colors=wanted):
            output.emit(piece)


@jobs_app.command()
def follow(job_id: JobId, as_json: AsJson = False) -> None:
    """Print a job's log from its start until it has ended, and exit with its code.

    Ctrl-C detaches; the job goes on.
    """
    with connect(settings_module.load()) as client:
        code = stay_with(client, job_id, as_json=as_json, cancel_on_interrupt=False)
    raise typer.Exit(code)


@jobs_app.command()
def cancel(
    job_id: JobId,
    wait: Annotated[
        bool, typer.Option("--wait", help="Stay until it has ended, and exit with its code.")
    ] = False,
) -> None:
    """Cancel a job that has not ended."""
    with connect(settings_module.load()) as client:
        client.cancel(job_id)
        output.say(f"job {job_id}: cancel requested")
        if wait:
            raise typer.Exit(stay_with(client, job_id, as_json=False, cancel_on_interrupt=False))
