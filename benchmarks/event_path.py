"""Events from the spool into PostgreSQL, against COPY of the same rows into the same table."""

from __future__ import annotations

import io
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from sqlalchemy import Engine, text

from benchmarks.figures import Figure
from benchmarks.servers import database
from dispatcher.db import event_store
from dispatcher.db.engine import transaction
from dispatcher.db.event_store import Advance
from tests.factories import make_job, make_node
from workers.spool import SpooledEvent, SpoolReader, SpoolWriter

EVENTS = 20_000
ROUNDS = 5
BATCH_EVENTS, BATCH_BYTES = 5_000, 4 << 20


def measure() -> list[Figure]:
    """Events per second through the spool, and its ratio to raw COPY in the same run."""
    shipped, raw, spooled = [], [], []
    with database() as engine, _directory() as directory:
        for number in range(ROUNDS):
            spool = directory / str(number)
            spool.mkdir()
            spooled.append(_write(spool))
            lines = SpoolReader(spool).read(0, max_events=EVENTS + 1, max_bytes=1 << 30).lines
            raw.append(_raw_copy(engine, _job(engine), lines))
            shipped.append(_ship(engine, _job(engine), spool))
    rates = [EVENTS / seconds for seconds in shipped]
    ratio = median(r / s for r, s in zip(raw, shipped, strict=True))
    comparison = f"raw COPY {EVENTS / median(raw):,.0f}/s; {ROUNDS} rounds of {EVENTS:,} events"
    spread = f"{min(rates):,.0f} to {max(rates):,.0f}"
    return [
        Figure("event_path_ratio", ratio, "ratio", comparison),
        Figure("event_path_rate", median(rates), "1/s", spread),
        Figure("spool_write", median(spooled) / EVENTS * 1e6, "µs", "to append one event"),
    ]


@contextmanager
def _directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="dispatcher-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _job(engine: Engine) -> tuple[int, uuid.UUID]:
    """A running job with its progress row."""
    with engine.begin() as connection:
        node = connection.scalar(text("SELECT id FROM node LIMIT 1")) or make_node(connection)
        job_id = make_job(connection, status="running", node_id=node)
        row = connection.execute(
            text(
                "INSERT INTO job_progress (job_id, job_day, dispatch_id)"
                " SELECT id, job_day, dispatch_id FROM job WHERE id = :job RETURNING dispatch_id"
            ),
            {"job": job_id},
        )
        return job_id, row.scalar_one()


def _write(spool: Path) -> float:
    data = '{"task": "Copy the unit", "host": "web01", "res": {"changed": true, "dest": "%s"}}'
    began = perf_counter()
    writer = SpoolWriter(spool)
    for counter in range(1, EVENTS + 1):
        writer.append_event(_event(counter, data % ("/etc/" + "x" * 600)))
    writer.end(EVENTS)
    writer.close()
    return perf_counter() - began


def _event(counter: int, data: str) -> SpooledEvent:
    fields: dict[str, Any] = {
        "counter": counter,
        "uuid": f"5254005c-{counter:08x}-0000-000000000000",
        "parent_uuid": "5254005c-dead-beef-0000-000000000000",
        "event": "runner_on_ok",
        "created": datetime(2026, 1, 1, tzinfo=UTC),
        "stdout": f"\x1b[0;33mchanged: [web{counter % 50:02}]\x1b[0m",
        "start_line": counter,
        "end_line": counter + 1,
        "verbosity": 0,
        "failed": False,
        "changed": True,
        "host_name": f"web{counter % 50:02}",
        "play": "Web servers",
        "task": "Copy the unit",
        "role": "web",
        "sanitized": False,
        "truncated": False,
        "event_data": data,
    }
    return SpooledEvent(**fields)


def _ship(engine: Engine, job: tuple[int, uuid.UUID], spool: Path) -> float:
    """As the agent's shipper does it: lock, cut, COPY, advance, commit, batch by batch."""
    began = perf_counter()
    offset = -1
    while True:
        with transaction(engine) as connection:
            (progress,) = event_store.lock_progress(connection, [job]).progress
            batch = SpoolReader(spool).read(
                progress.spool_offset, max_events=BATCH_EVENTS, max_bytes=BATCH_BYTES
            )
            if batch.next_offset == offset:
                break
            offset = batch.next_offset
            event_store.copy_events(connection, [(progress, batch.lines)])
            stored = progress.stored + len(batch.lines)
            event_store.advance(connection, [Advance(job[0], stored, offset)])
        if batch.total is not None:
            break
    return perf_counter() - began


def _raw_copy(engine: Engine, job: tuple[int, uuid.UUID], lines: list[bytes]) -> float:
    """The same rows in the same batches by COPY and nothing else."""
    with engine.connect() as connection:
        day = connection.scalar(text("SELECT job_day FROM job WHERE id = :id"), {"id": job[0]})
        prefix = f"{day}\t{job[0]}\t".encode()
        content = [
            b"".join(prefix + line for line in lines[first : first + BATCH_EVENTS])
            for first in range(0, len(lines), BATCH_EVENTS)
        ]
    raw: Any = engine.raw_connection()
    began = perf_counter()
    for block in content:
        with raw.cursor() as cursor:
            cursor.copy_expert("COPY job_event FROM STDIN", io.BytesIO(block))
        raw.commit()
    seconds = perf_counter() - began
    raw.close()
    return seconds
