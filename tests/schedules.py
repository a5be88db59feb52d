"""Schedules for tests, and what came of them."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, insert, text

from dispatcher.db import tables as t
from tests import templates
from tests.factories import default_organization

_numbers = itertools.count(1)


def make_target(connection: Connection, **columns: Any) -> int:
    """A job template that can be launched."""
    project = templates.make_project(connection)
    templates.updated(connection, project)
    inventory = templates.make_inventory(connection, ["web1", "web2"])
    return templates.make_template(connection, project, inventory, **columns)


def make_schedule(connection: Connection, template_id: int, **columns: Any) -> int:
    """A schedule of every hour, as it is stored: nothing is checked or computed."""
    values = {
        "organization_id": default_organization(connection),
        "name": f"schedule {next(_numbers)}",
        "launches": "job_template",
        "template_id": template_id,
        "rule_kind": "cron",
        "rule": "0 * * * *",
    }
    return int(
        connection.execute(
            insert(t.schedule).values(values | columns).returning(t.schedule.c.id)
        ).scalar_one()
    )


def set_clock(engine: Engine, moment: datetime) -> None:
    """Let the database's clock stand at a moment, for everybody who uses this database."""
    with engine.begin() as connection:
        connection.execute(
            text(
                "CREATE OR REPLACE FUNCTION dispatcher_now() RETURNS timestamptz LANGUAGE sql"
                f" VOLATILE PARALLEL SAFE AS $$ SELECT timestamptz '{moment.isoformat()}' $$"
            )
        )


def schedule_row(engine: Engine, schedule_id: int) -> Any:
    with engine.connect() as connection:
        return connection.execute(
            text("SELECT * FROM schedule WHERE id = :id"), {"id": schedule_id}
        ).one()


def launches_of(engine: Engine, schedule_id: int) -> list[Any]:
    """What a schedule launched, by due time, with the jobs' rows."""
    with engine.connect() as connection:
        return list(
            connection.execute(
                text(
                    "SELECT due, job_id, error, job.kind, job.launched_by, job.launch_type,"
                    " job.job_template_id, job.dependencies_processed FROM schedule_launch"
                    " LEFT JOIN job ON job.id = job_id WHERE schedule_id = :id ORDER BY due"
                ),
                {"id": schedule_id},
            )
        )
