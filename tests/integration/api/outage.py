"""What the tests of outages share."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Engine, text

from tests.factories import make_job, make_node, store_bundle

RUNS = "/api/v2/runs/"


def prepare(engine: Engine) -> tuple[dict[str, Any], int]:
    """A request for a run that is accepted, and a running job."""
    with engine.begin() as connection:
        make_node(connection)
        digest = store_bundle(connection, {"site.yml": "- hosts: all\n"})
        job = make_job(connection, status="running")
    return {"playbook": "site.yml", "bundle_digest": digest, "inventory": "localhost\n"}, job


def seconds(call: Any) -> tuple[float, Any]:
    """How long a call took, and what it returned."""
    started = time.monotonic()
    answer = call()
    return time.monotonic() - started, answer


def count_jobs(engine: Engine) -> int:
    """How many jobs there are."""
    with engine.begin() as connection:
        return int(connection.scalar(text("SELECT count(*) FROM job")) or 0)
