"""The events of a run as REST v1 lists them: one query over a range of the primary key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from dispatcher.db.run_summaries import RunState

_COLUMNS: Final = "counter, uuid, event, host_name, task, role"
#: Keys of an event itself that filters compare, beside those of its data and its result.
_OUTER: Final = ("event", "uuid", "parent_uuid", "stdout")
#: Events that a list with filters never shows.
_NEVER: Final = (
    "playbook_on_start",
    "playbook_on_play_start",
    "playbook_on_task_start",
    "playbook_on_stats",
)


def read_list(
    connection: Connection, run: RunState, filters: Mapping[str, str], *, after: int, ident: str
) -> Sequence[Any]:
    """Counter, uuid, event, host, task and role of events, in their order.

    Args:
        filters: each name must have the text as its value, in the event, its data or its result;
            events without data pass.
        after: only events with a higher counter.
        ident: what ``runner_ident`` is compared with.
    """
    given: dict[str, Any] = {
        "day": run.job_day,
        "job": run.job_id,
        "after": after,
        "upto": run.stored,
    }
    conditions = []
    for number, (name, value) in enumerate(filters.items()):
        if name == "runner_ident" and value == ident:
            continue
        given |= {f"name{number}": name, f"value{number}": value}
        data = f"to_jsonb(CAST(:value{number} AS text))"
        either = [f"event_data -> :name{number} = {data}"]
        either.append(f"event_data -> 'res' -> :name{number} = {data}")
        if name in _OUTER:
            either.append(f"{name} = :value{number}")
        conditions.append(f"({' OR '.join(either)})")
    wanted = ""
    if filters:
        given["never"] = list(_NEVER)
        every = " AND ".join(conditions) or "true"
        wanted = f" AND event <> ALL(:never) AND (event_data = '{{}}' OR ({every}))"
    rows = connection.execute(
        text(
            f"SELECT {_COLUMNS} FROM job_event WHERE job_day = :day AND job_id = :job"
            f" AND counter > :after AND counter <= :upto{wanted} ORDER BY counter"
        ),
        given,
    )
    return rows.all()
