"""What an inventory update brings home: 10,000 hosts in ten groups, imported, and imported again."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any

from sqlalchemy import Engine

from benchmarks.figures import Figure, spread
from benchmarks.servers import database
from dispatcher.actions.import_inventory import import_inventory
from dispatcher.domain.inventory_listing import read_listing
from tests.templates import make_inventory, make_project, make_source

ROUNDS = 5
HOSTS = 10_000
GROUPS = 10


def measure() -> list[Figure]:
    """Seconds from the listing to the commit: every host new, then every host's variables changed."""
    new, changed = [], []
    with database() as engine:
        for _ in range(ROUNDS):
            with engine.begin() as connection:
                inventory = make_inventory(connection)
                source = make_source(connection, inventory, make_project(connection))
            new.append(_import(engine, source, version=1))
            changed.append(_import(engine, source, version=2))
    return [
        Figure("import_10000_hosts", median(new), "s", spread(new, "s")),
        Figure("import_10000_changed", median(changed), "s", spread(changed, "s")),
    ]


def _import(engine: Engine, source: int, version: int) -> float:
    names = [f"h{number}" for number in range(HOSTS)]
    document: dict[str, Any] = {
        "_meta": {
            "hostvars": {
                name: {"ansible_host": f"10.{number >> 8}.{number & 255}.1", "version": version}
                for number, name in enumerate(names)
            }
        }
    }
    document |= {f"g{group}": {"hosts": names[group::GROUPS]} for group in range(GROUPS)}
    began = perf_counter()
    with engine.begin() as connection:
        imported = import_inventory(connection, source, read_listing(document))
    took = perf_counter() - began
    # new: hosts, groups, and a membership for each host
    expected = 2 * HOSTS + GROUPS if version == 1 else HOSTS
    if (imported.hosts, imported.changed) != (HOSTS, expected):
        raise AssertionError(f"{imported}: {expected} rows were to be written")
    return took
