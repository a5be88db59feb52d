"""Runs of REST v1 whose node the test acts: posted, with events as a node stores them, ended."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import httpx
from sqlalchemy import Engine, select, text, update

from dispatcher import clock
from dispatcher.db import event_store, run_summaries
from dispatcher.db import tables as t
from dispatcher.db.event_store import Progress
from tests.factories import add_events, make_node
from tests.runner_service import said

RUNS = "/api/v1/playbooks"


def started(http: httpx.Client, path: str = "hello.yml", **options: Any) -> str:
    """Post a run; its uuid."""
    code, status, msg, data = said(http.post(f"{RUNS}/{path}", **({"json": {}} | options)))
    assert (code, status, msg, list(data)) == (202, "STARTED", "running", ["play_uuid"])
    return str(UUID(data["play_uuid"]))


def job_of(engine: Engine, uuid: str) -> Any:
    with engine.connect() as connection:
        return connection.execute(
            select(t.job, t.job_input, t.organization.c.name.label("organization"))
            .join(t.job_input, t.job_input.c.job_id == t.job.c.id)
            .join(t.organization, t.organization.c.id == t.job.c.organization_id)
            .where(t.job.c.uuid == UUID(uuid))
        ).one()


def store(engine: Engine, uuid: str, *events: dict[str, Any]) -> None:
    """Events of a run that is running, as its node stores them."""
    with engine.begin() as connection:
        job = connection.execute(select(t.job).where(t.job.c.uuid == UUID(uuid))).one()
        if job.status == "pending":
            node = connection.scalar(select(t.node.c.id)) or make_node(connection)
            connection.execute(
                update(t.job)
                .where(t.job.c.id == job.id)
                .values(
                    status="running",
                    node_id=node,
                    node_epoch=1,
                    dispatch_id=job.uuid,
                    started=clock.now(),
                    waiting_since=clock.now(),
                    instance_group_id=job.preferred_groups[0],
                )
            )
            connection.execute(
                text(
                    "INSERT INTO job_progress (job_id, job_day, dispatch_id)"
                    " SELECT id, job_day, dispatch_id FROM job WHERE id = :job"
                ),
                {"job": job.id},
            )
        row = connection.execute(
            select(t.job_progress).where(t.job_progress.c.job_id == job.id)
        ).one()
        for number, event in enumerate(events, 1):
            columns = {"task": "", "play": ""} | event
            add_events(connection, job.id, [columns.pop("stdout", "")], **columns)
            assert number
        progress = Progress(job.id, row.dispatch_id, row.job_day, row.stored, 0)
        run_summaries.add_events(connection, [(progress, len(events))])
        event_store.advance(connection, [event_store.Advance(job.id, row.stored + len(events), 10)])


def task(name: str) -> dict[str, Any]:
    data = {"task": name, "play_pattern": "all", "task_path": "x:1", "task_action": "debug"}
    return {"event": "playbook_on_task_start", "task": name, "event_data": data}


def result(kind: str, host: str, task: str = "a", **data: Any) -> dict[str, Any]:
    failed = kind == "failed" and not data.get("ignore_errors")
    given = {"host": host, "task": task, "res": {"rc": 1, "msg": "words"}} | data
    return {
        "event": f"runner_on_{kind}",
        "host_name": host,
        "task": task,
        "failed": failed,
        "event_data": given,
        "stdout": f"\x1b[0;32m{kind}: [{host}]\x1b[0m",
    }


def finish(engine: Engine, uuid: str, status: str, outcome: str) -> None:
    with engine.begin() as connection:
        connection.execute(
            update(t.job)
            .where(t.job.c.uuid == UUID(uuid))
            .values(
                status=status,
                outcome=outcome,
                finished=clock.now(),
                cancel_requested=status == "canceled",
            )
        )
