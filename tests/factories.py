"""Rows for tests, made by plain inserts that satisfy the schema's CHECKs."""

from __future__ import annotations

import hashlib
import io
import tarfile
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import zstandard
from sqlalchemy import Connection, insert, select, text

from dispatcher.db import partitions
from dispatcher.db import tables as t
from dispatcher.domain.bundle import BundleCheck
from dispatcher.domain.tar_stream import Member


def default_organization(connection: Connection) -> int:
    return connection.execute(
        select(t.organization.c.id).where(t.organization.c.name == "Default")
    ).scalar_one()


def default_group(connection: Connection) -> int:
    return connection.execute(
        select(t.instance_group.c.id).where(t.instance_group.c.name == "default")
    ).scalar_one()


def make_node(
    connection: Connection,
    name: str = "n1",
    *,
    capacity: int = 100,
    epoch: int = 1,
    state: str = "alive",
    groups: tuple[int, ...] | None = None,
    **columns: Any,
) -> int:
    """A registered node with a lease, in the group ``default`` unless told otherwise."""
    node_id = connection.execute(
        insert(t.node)
        .values(
            name=name,
            identity=uuid.uuid4(),
            fixed_capacity=capacity,
            cpus=4,
            memory=8 << 30,
            cpu_capacity=16,
            mem_capacity=61,
            **columns,
        )
        .returning(t.node.c.id)
    ).scalar_one()
    connection.execute(insert(t.node_lease).values(node_id=node_id, epoch=epoch, state=state))
    for group in (default_group(connection),) if groups is None else groups:
        connection.execute(
            insert(t.instance_group_node).values(instance_group_id=group, node_id=node_id)
        )
    return node_id


def make_job(
    connection: Connection,
    *,
    status: str = "pending",
    kind: str = "playbook",
    inputs: Mapping[str, Any] | None = None,
    **columns: Any,
) -> int:
    """A job in any status, with what that status needs (dispatch, node, times, outcome)."""
    values: dict[str, Any] = {
        "uuid": uuid.uuid4(),
        "kind": kind,
        "name": "site.yml",
        "status": status,
        "organization_id": default_organization(connection),
        "task_impact": 2,
        "preferred_groups": [default_group(connection)],
        "dependencies_processed": True,
    }
    if status in ("waiting", "running") and kind != "workflow":
        values |= {
            "dispatch_id": uuid.uuid4(),
            "instance_group_id": default_group(connection),
            "waiting_since": text("dispatcher_now()"),
        }
        if "node_id" not in columns:
            values["node_id"] = connection.execute(select(t.node.c.id).limit(1)).scalar_one()
    if status == "running":
        values["started"] = text("dispatcher_now()")
        if kind != "workflow":
            values["node_epoch"] = 1
    if status in ("successful", "failed", "error", "canceled"):
        outcome = {
            "successful": "successful",
            "failed": "failed_hosts",
            "error": "internal",
            "canceled": "canceled",
        }[status]
        values |= {
            "finished": text("dispatcher_now()"),
            "outcome": outcome,
            "cancel_requested": status == "canceled",
            "events_complete": True,
        }
    job_id = connection.execute(
        insert(t.job).values(**(values | columns)).returning(t.job.c.id)
    ).scalar_one()
    row: dict[str, Any] = {"job_id": job_id, "playbook": "site.yml", "inventory": "localhost\n"}
    connection.execute(insert(t.job_input).values(**(row | dict(inputs or {}))))
    return job_id


def pack(files: Mapping[str, str | bytes]) -> tuple[str, bytes, int]:
    """A content bundle (tar, zstd) of these files: (digest, bytes, unpacked size)."""
    plain = io.BytesIO()
    size = 0
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, content in sorted(files.items()):
            raw = content.encode() if isinstance(content, str) else content
            size += len(raw)
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(raw))
    packed = zstandard.ZstdCompressor().compress(plain.getvalue())
    return hashlib.sha256(packed).hexdigest(), packed, size


def store_bundle(connection: Connection, files: Mapping[str, str | bytes]) -> str:
    """A complete bundle in the database; its digest."""
    digest, packed, size = pack(files)
    check = BundleCheck(unpacked_limit=size)
    for name in files:
        check.add(Member(name, "file"))
    connection.execute(
        insert(t.content_bundle).values(
            digest=digest,
            size=len(packed),
            unpacked_size=size,
            complete=True,
            paths=list(check.finish().paths or ()),
        )
    )
    connection.execute(insert(t.content_chunk).values(digest=digest, number=0, bytes=packed))
    return digest


def add_events(
    connection: Connection,
    job_id: int,
    texts: Sequence[str],
    *,
    host_name: str = "",
    event: str = "runner_on_ok",
    event_data: Mapping[str, Any] | None = None,
    **columns: Any,
) -> int:
    """Append events with these outputs to a job, as a node stores them; how many it has then.

    Counters and lines go on from the events that the job has. A text ends with a line end that is
    not part of what is stored; an empty one is an event without output.
    """
    job_day = connection.execute(select(t.job.c.job_day).where(t.job.c.id == job_id)).scalar_one()
    last = connection.execute(
        select(t.job_event.c.counter, t.job_event.c.end_line)
        .where(t.job_event.c.job_day == job_day, t.job_event.c.job_id == job_id)
        .order_by(t.job_event.c.counter.desc())
        .limit(1)
    ).one_or_none()
    counter, line = (0, 0) if last is None else last
    rows = []
    for each in texts:
        counter += 1
        lines = each.count("\n") + 1 if each else 0
        rows.append(
            {
                "job_day": job_day,
                "job_id": job_id,
                "counter": counter,
                "uuid": str(uuid.uuid4()),
                "parent_uuid": "",
                "event": event,
                "created": text("dispatcher_now()"),
                "stdout": each,
                "start_line": line,
                "end_line": line + lines,
                "verbosity": 0,
                "failed": False,
                "changed": False,
                "host_name": host_name,
                "play": "all",
                "task": "a task",
                "role": "",
                "sanitized": False,
                "truncated": False,
                "event_data": dict(event_data or {}),
                **columns,
            }
        )
        line += lines
    for first in range(0, len(rows), 1000):
        connection.execute(insert(t.job_event).values(rows[first : first + 1000]))
    dispatch_id = connection.execute(
        select(t.job.c.dispatch_id).where(t.job.c.id == job_id)
    ).scalar_one()
    connection.execute(
        text(
            "INSERT INTO job_progress (job_id, job_day, dispatch_id, stored)"
            " VALUES (:job, :day, :dispatch, :stored)"
            " ON CONFLICT (job_id) DO UPDATE SET stored = :stored"
        ),
        {
            "job": job_id,
            "day": job_day,
            "dispatch": dispatch_id or uuid.uuid4(),
            "stored": counter,
        },
    )
    return counter


def finish_job(connection: Connection, job_id: int, status: str = "successful") -> None:
    """Write a final status, as the node does with the last events."""
    outcome = {"successful": "successful", "failed": "failed_hosts", "error": "internal"}[status]
    connection.execute(
        text(
            "UPDATE job SET status = :status, outcome = :outcome, finished = dispatcher_now(),"
            " events_complete = true WHERE id = :job"
        ),
        {"job": job_id, "status": status, "outcome": outcome},
    )


def drop_partition(connection: Connection, *, days_ahead: int) -> str:
    """Remove the partition of a day to come, as if it were time to make it; its name."""
    # the schema may have been made before midnight
    partitions.ensure_partitions(connection)
    today = connection.scalar(text("SELECT (dispatcher_now() AT TIME ZONE 'UTC')::date"))
    assert today is not None
    day = today + timedelta(days=days_ahead)
    partitions.drop_partition(connection, day)
    return partitions.partition_name(day)
