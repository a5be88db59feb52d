"""Running managers inside a test: real database, real broker, no worker process."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Engine, insert, text

from dispatcher.broker.celery_app import make_app
from dispatcher.broker.messages import Manager, node_queue, read_pairs
from dispatcher.db.change import raise_counter
from dispatcher.db.tables import job
from dispatcher.settings import Settings
from schedulers.passes.holder import Holder
from schedulers.passes.manager_pass import Runner, Work
from schedulers.passes.works import make_runner
from tests.factories import default_group, default_organization


@contextmanager
def runner(
    settings: Settings,
    works: Mapping[Manager, Work] | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> Iterator[Runner]:
    """A runner as a control process has it; ``works`` replaces some of the managers' work."""
    made = make_runner(settings, name="test runner", stopping=stopping)
    try:
        yield replace(made, works={**made.works, **(works or {})})
    finally:
        made.engine.dispose()


def another(of: Runner) -> Runner:
    """A runner that counts as another process on another machine."""
    holder = replace(Holder.of_this_process(), id=uuid.uuid4(), host="other/pid:[1]")
    return replace(of, holder=holder)


def submitted(settings: Settings, node: str) -> list[list[tuple[int, uuid.UUID]]]:
    """Take every message from a node's queue: the pairs of each."""
    taken = []
    app = make_app(settings, profile="publisher")
    with app.connection_for_read() as connection, connection.channel() as channel:
        app.amqp.queues[node_queue(node)](channel).declare()
        while (message := channel.basic_get(node_queue(node), no_ack=True)) is not None:
            pairs = read_pairs(channel.message_to_python(message).decode()[0][0])
            assert pairs is not None
            taken.append(pairs)
    return taken


def make_jobs(connection: Connection, count: int, **columns: Any) -> list[int]:
    """Many pending playbook jobs in one statement, without what they run."""
    values = {
        "kind": "playbook",
        "name": "site.yml",
        "organization_id": default_organization(connection),
        "task_impact": 2,
        "preferred_groups": [default_group(connection)],
        "dependencies_processed": True,
    }
    rows = [{**values, **columns, "uuid": uuid.uuid4()} for _ in range(count)]
    made = insert(job).returning(job.c.id, sort_by_parameter_order=True)
    return list(connection.scalars(made, rows))


def statuses(engine: Engine) -> dict[str, int]:
    """How many jobs have each status."""
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT status, count(*) FROM job GROUP BY status"))
        return dict(rows.all())


def job_row(engine: Engine, job_id: int) -> Any:
    with engine.connect() as connection:
        return connection.execute(text("SELECT * FROM job WHERE id = :id"), {"id": job_id}).one()


def lease_row(engine: Engine, manager: Manager) -> Any:
    with engine.connect() as connection:
        return connection.execute(
            text("SELECT * FROM manager_lease NATURAL JOIN manager_request WHERE manager = :m"),
            {"m": str(manager)},
        ).one()


@contextmanager
def changed(engine: Engine) -> Iterator[Connection]:
    """A transaction that raises the change counter at its end, as everything that counts does."""
    with engine.begin() as connection:
        yield connection
        raise_counter(connection)
