"""Schedules in real processes: two beats, two controls, and one of them killed on the way."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from datetime import timedelta

from sqlalchemy import Engine, text

from dispatcher.settings import Settings
from tests.roles import children_of, role
from tests.schedules import make_schedule, make_target
from tests.waiting import wait_until

SCHEDULES = 12
MISSED = 15


def test_every_due_time_is_launched_once_by_two_beats_and_two_controls_of_which_one_is_killed(
    engine: Engine, settings: Settings
) -> None:
    quick = settings.model_copy(update={"manager_period": 0.5, "recovery_period": 0.5})
    with engine.begin() as connection:
        now = connection.execute(text("SELECT date_trunc('minute', dispatcher_now())")).scalar_one()
        for _ in range(SCHEDULES):
            make_schedule(
                connection,
                make_target(connection),
                rule="* * * * *",
                misfire="all",
                misfire_limit=MISSED,
                next_run=now - timedelta(hours=3),
            )

    def launched() -> int:
        with engine.connect() as connection:
            return int(connection.scalar(text("SELECT count(*) FROM schedule_launch")) or 0)

    with role(quick, "beat"), role(quick, "beat"), role(quick, "control") as first:
        wait_until(lambda: children_of(first.pid), timeout=20)
        with role(quick, "control"):
            wait_until(lambda: launched() > 0, timeout=40)
            for pid in children_of(first.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with engine.begin() as connection:  # an outage, and back again
                connection.execute(
                    text("UPDATE schedule SET next_run = :then"), {"then": now - timedelta(hours=3)}
                )
            wait_until(lambda: not _behind(engine), timeout=60)
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT schedule_id, count(*), count(DISTINCT job_id),"
                " max(due) - min(due) = make_interval(mins => count(*)::int - 1)"
                " FROM schedule_launch GROUP BY 1"
            )
        ).all()
        jobs = connection.scalar(text("SELECT count(*) FROM job WHERE launch_type = 'scheduled'"))
    assert len(rows) == SCHEDULES
    for _, count, distinct, without_gap in rows:
        assert MISSED <= count == distinct
        assert without_gap
    assert jobs == sum(row[1] for row in rows)


def _behind(engine: Engine) -> bool:
    with engine.connect() as connection:
        return bool(
            connection.scalar(
                text("SELECT bool_or(next_run <= dispatcher_now()) FROM schedule WHERE enabled")
            )
        )
