"""A stored event in the form that ansible-runner gave it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import RowMapping


def raw_event(row: RowMapping, run: str) -> dict[str, Any]:
    """An event.

    Args:
        row: a row of ``job_event``.
        run: uuid of the run.
    """
    event = {
        "uuid": row["uuid"],
        "counter": row["counter"],
        "stdout": row["stdout"],
        "start_line": row["start_line"],
        "end_line": row["end_line"],
        "runner_ident": run,
        "event": row["event"],
        # of a process on another machine, which is gone
        "pid": 0,
        "created": row["created"].isoformat(),
        "event_data": row["event_data"],
    }
    if row["parent_uuid"]:
        event["parent_uuid"] = row["parent_uuid"]
    return event
