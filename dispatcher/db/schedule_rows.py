"""Rows of schedules: which are due, what was launched, when each is due next."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, text

#: What a schedule launches → what people call it.
TARGETS: Final[Mapping[str, str]] = {
    "job_template": "job template",
    "workflow_job_template": "workflow job template",
    "project": "project",
    "inventory_source": "inventory source",
}
#: How long it is known what a schedule has launched.
KEEP_LAUNCHES: Final = "90 days"

_COLUMNS = """
    SELECT id, launches, template_id, rule_kind, rule, time_zone, starts, ends, misfire,
        misfire_limit, next_run, CASE launches
            WHEN 'job_template' THEN EXISTS (SELECT FROM job_template t WHERE t.id = template_id)
            WHEN 'workflow_job_template' THEN
                EXISTS (SELECT FROM workflow_job_template t WHERE t.id = template_id)
            WHEN 'project' THEN EXISTS (SELECT FROM project t WHERE t.id = template_id)
            WHEN 'inventory_source' THEN
                EXISTS (SELECT FROM inventory_source t WHERE t.id = template_id)
        END AS target_exists
    FROM schedule WHERE enabled AND next_run <= :now
"""


def any_due(connection: Connection) -> bool:
    """Whether any schedule is due."""
    # the clock is read once: compared with a volatile function the index would not be used
    return bool(
        connection.scalar(
            text(
                "SELECT EXISTS (SELECT FROM schedule"
                " WHERE enabled AND next_run <= (SELECT dispatcher_now()))"
            )
        )
    )


def read_due(connection: Connection, now: datetime, behind: int, size: int) -> Sequence[Row[Any]]:
    """Schedules that are due at ``now``, in order of id, from the one after ``behind``."""
    return connection.execute(
        text(f"{_COLUMNS} AND id > :behind ORDER BY id LIMIT :size"),
        {"now": now, "behind": behind, "size": size},
    ).all()


def read_named(connection: Connection, now: datetime, ids: Collection[int]) -> Sequence[Row[Any]]:
    """Those of the given schedules that are due at ``now``."""
    return connection.execute(
        text(f"{_COLUMNS} AND id = ANY(CAST(:ids AS bigint[])) ORDER BY id"),
        {"now": now, "ids": list(ids)},
    ).all()


def lock_unchanged(connection: Connection, observed: Mapping[int, datetime]) -> dict[int, Row[Any]]:
    """Lock those of the schedules that nobody has moved, changed or disabled since.

    Args:
        observed: schedule → the due time that was planned on.
    """
    rows = connection.execute(
        text(
            """
            SELECT id, name, launches, template_id, prompts FROM schedule
            JOIN unnest(CAST(:ids AS bigint[]), CAST(:times AS timestamptz[])) AS v(of_id, observed)
                ON id = of_id
            WHERE enabled AND next_run = observed
            ORDER BY id FOR NO KEY UPDATE OF schedule SKIP LOCKED
            """
        ),
        {"ids": list(observed), "times": list(observed.values())},
    )
    return {row.id: row for row in rows}


def take_due_times(
    connection: Connection, wanted: Sequence[tuple[int, datetime]]
) -> list[tuple[int, datetime]]:
    """Note that these due times are launched; those that were not before, in order."""
    if not wanted:
        return []
    rows = connection.execute(
        text(
            """
            INSERT INTO schedule_launch (schedule_id, due)
            SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:times AS timestamptz[]))
            ON CONFLICT (schedule_id, due) DO NOTHING RETURNING schedule_id, due
            """
        ),
        {"ids": [i for i, _ in wanted], "times": [due for _, due in wanted]},
    )
    return sorted((row.schedule_id, row.due) for row in rows)


def note_launches(
    connection: Connection, launches: Sequence[tuple[int, datetime, int | None, str]]
) -> None:
    """Note what came of due times: (schedule, due, job, error)."""
    if not launches:
        return
    ids, times, jobs, errors = (list(column) for column in zip(*launches, strict=True))
    connection.execute(
        text(
            """
            UPDATE schedule_launch SET job_id = v.job, error = v.words
            FROM unnest(CAST(:ids AS bigint[]), CAST(:times AS timestamptz[]),
                CAST(:jobs AS bigint[]), CAST(:errors AS text[])) AS v(of_id, at, job, words)
            WHERE schedule_id = v.of_id AND due = v.at
            """
        ),
        {"ids": ids, "times": times, "jobs": jobs, "errors": errors},
    )


def move_on(
    connection: Connection, moves: Sequence[tuple[int, datetime | None, datetime | None]]
) -> None:
    """Set when schedules are due next: (schedule, next run, last run or None: as it was)."""
    if not moves:
        return
    ids, next_runs, last_runs = (list(column) for column in zip(*moves, strict=True))
    connection.execute(
        text(
            """
            UPDATE schedule SET next_run = v.next_run, last_run = coalesce(v.last_run, schedule.last_run)
            FROM unnest(CAST(:ids AS bigint[]), CAST(:next AS timestamptz[]),
                CAST(:last AS timestamptz[])) AS v(of_id, next_run, last_run)
            WHERE id = v.of_id
            """
        ),
        {"ids": ids, "next": next_runs, "last": last_runs},
    )
    connection.execute(
        text(
            "DELETE FROM schedule_launch WHERE schedule_id = ANY(CAST(:ids AS bigint[]))"
            f" AND due < (SELECT dispatcher_now()) - interval '{KEEP_LAUNCHES}'"
        ),
        {"ids": ids},
    )


def disable(connection: Connection, reasons: Mapping[int, str]) -> int:
    """Disable schedules that cannot go on, each with its reason; how many were enabled."""
    if not reasons:
        return 0
    return connection.execute(
        text(
            """
            UPDATE schedule SET enabled = false, next_run = NULL, disabled_reason = v.reason,
                modified = dispatcher_now()
            FROM unnest(CAST(:ids AS bigint[]), CAST(:reasons AS text[])) AS v(of_id, reason)
            WHERE id = v.of_id AND enabled
            """
        ),
        {"ids": list(reasons), "reasons": list(reasons.values())},
    ).rowcount
