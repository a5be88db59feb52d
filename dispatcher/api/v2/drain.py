"""``instances/N/drain/``: a node is emptied, and says what still runs on it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from sqlalchemy import Connection, Row

from dispatcher import logs
from dispatcher.actions.save_node import change_node
from dispatcher.api.auth import CallerParameter
from dispatcher.api.body import JsonRoute
from dispatcher.api.v2 import objects
from dispatcher.api.v2.instances import INSTANCE
from dispatcher.api.v2.job_kinds import TYPES, job_url
from dispatcher.db import node_queries
from dispatcher.db.explain_rows import read_run_times
from dispatcher.domain.status import Kind
from schedulers.core.explain import RunTimes

log = logs.get(__name__)


class RunningThere(BaseModel):
    """A job that a drain waits for."""

    id: int = Field(description="Number of the job.")
    type: str = Field(description="Its kind, as a word.")
    url: str = Field(description="Path of the job.")
    name: str = Field(description="Its name.")
    status: str = Field(description="`running`, or `waiting` for a moment before.")
    started: datetime | None = Field(description="Since when it runs.")
    expected_end: datetime | None = Field(
        description="By how long such jobs have run lately; null when none has."
    )


class Drain(BaseModel):
    """How far the drain of a node is."""

    id: int = Field(description="Number of the node.")
    hostname: str = Field(description="Name of the node.")
    enabled: bool = Field(description="False: switched off by an operator.")
    draining: bool = Field(description="Whether it is being drained.")
    drained: bool = Field(description="Whether that is done: nothing runs on it any more.")
    jobs: list[RunningThere] = Field(description="What runs on it, longest first.")


router = APIRouter(prefix="/api/v2/instances", tags=["instances"], route_class=JsonRoute)


def _read(connection: Connection, node_id: int) -> dict[str, Any]:
    row = objects.read_row(connection, INSTANCE, node_id)
    jobs = node_queries.read_active(connection, node_id)
    return {
        "id": node_id,
        "hostname": row["name"],
        "enabled": row["enabled"],
        "draining": row["draining"],
        "drained": row["draining"] and not jobs,
        "jobs": _rendered(connection, jobs),
    }


def _rendered(connection: Connection, jobs: Sequence[Row[Any]]) -> list[dict[str, Any]]:
    if not jobs:
        return []
    times = read_run_times(connection, {j.job_template_id for j in jobs if j.job_template_id})
    return [
        {
            "id": job.id,
            "type": TYPES[Kind(job.kind)],
            "url": job_url(Kind(job.kind), job.id),
            "name": job.name,
            "status": job.status,
            "started": job.started,
            "expected_end": _expected_end(job, times),
        }
        for job in jobs
    ]


def _expected_end(job: Row[Any], times: RunTimes) -> datetime | None:
    seconds = times.templates.get(job.job_template_id, times.kinds.get(Kind(job.kind)))
    if seconds is None or job.started is None:
        return None
    end: datetime = job.started + timedelta(seconds=seconds)
    return end


def _get(caller: CallerParameter, object_id: int) -> dict[str, Any]:
    with caller.reading() as connection:
        return _read(connection, object_id)


def _post(caller: CallerParameter, object_id: int) -> dict[str, Any]:
    with caller.transaction() as connection:
        owed = change_node(connection, object_id, {"draining": True})
        found = _read(connection, object_id)
    log.info("node_draining", node=found["hostname"], jobs=len(found["jobs"]))
    caller.services.publisher.publish(owed)
    return found


router.get(
    "/{instance_id}/drain/",
    summary="What runs on the node",
    description="Whether it is being drained, and what a drain would wait for.",
    response_model=Drain,
)(objects.typed(_get, object_id=INSTANCE.number))
router.post(
    "/{instance_id}/drain/",
    summary="Drain the node",
    description="No more jobs are started on it, those that wait there go elsewhere, those that run"
    " go on. `PATCH instances/N/` with `draining: false` ends the drain.",
    status_code=202,
    response_model=Drain,
)(objects.typed(_post, object_id=INSTANCE.number))
