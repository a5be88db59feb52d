"""One job for each host of an inventory of 10,000: a launch of one more, and a change of a host.

Each job is limited to its host and locks it; every change of the inventory finds all of their hosts
again, in its own transaction.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

from sqlalchemy import Connection, Engine, text

from benchmarks.figures import Figure, spread
from benchmarks.servers import database
from dispatcher.actions.launch_template import TemplateLaunch, launch_job_templates
from dispatcher.actions.save_inventory import change_host
from tests.templates import make_inventory, make_project, make_template, updated

HOSTS = 10_000
BATCH = 1_000
LAUNCHES = 40
CHANGES = 5


def measure() -> list[Figure]:
    """Milliseconds of a launch, and seconds of a change while all jobs are pending."""
    with database() as engine:
        with engine.begin() as connection:
            template, host = _make_template(connection)
        for first in range(0, HOSTS, BATCH):
            _launch(engine, template, range(first, first + BATCH))
        launches = [_launch(engine, template, [number]) * 1_000 for number in range(LAUNCHES)]
        changes = [_change(engine, host, number) for number in range(CHANGES)]
    return [
        Figure("fleet_launch", median(launches), "ms", spread(launches, "ms")),
        Figure("fleet_change", median(changes), "s", spread(changes, "s")),
    ]


def _make_template(connection: Connection) -> tuple[int, int]:
    """A template that locks its hosts; and a host of its inventory."""
    project = make_project(connection)
    updated(connection, project, files={"site.yml": "- hosts: all\n"})
    inventory = make_inventory(connection, [_name(number) for number in range(HOSTS)])
    template = make_template(
        connection,
        project,
        inventory,
        host_lock="exclusive",
        ask_limit_on_launch=True,
        allow_simultaneous=True,
    )
    host = connection.scalar(text("SELECT min(id) FROM inventory_host"))
    assert host is not None
    return template, host


def _name(number: int) -> str:
    return f"h{number}.example.com"


def _launch(engine: Engine, template: int, hosts: range | list[int]) -> float:
    began = perf_counter()
    wanted = [TemplateLaunch(template, {"limit": _name(number)}, "benchmark") for number in hosts]
    with engine.begin() as connection:
        launched = launch_job_templates(connection, wanted)
    took = perf_counter() - began
    for each in launched:
        if isinstance(each, Exception):
            raise each
    return took


def _change(engine: Engine, host: int, number: int) -> float:
    began = perf_counter()
    with engine.begin() as connection:
        change_host(connection, host, {"variables": {"x": number}})
    took = perf_counter() - began
    with engine.connect() as connection:
        behind = connection.scalar(
            text(
                "SELECT count(*) FROM job JOIN inventory ON inventory.id = inventory_id"
                " WHERE inventory_revision <> revision OR cardinality(lock_keys) <> 1"
            )
        )
    if behind:
        raise AssertionError(f"{behind} jobs were not found again")
    return took
