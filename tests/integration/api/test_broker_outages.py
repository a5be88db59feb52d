"""The broker away: jobs are accepted and canceled all the same."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.settings import Settings
from tests.api_server import in_thread
from tests.integration.api.outage import RUNS, count_jobs, prepare, seconds
from tests.waiting import NOT_ENDLESS, wait_until


@pytest.fixture
def broker(data_dir: Path) -> Iterator[EmbeddedValkey]:
    """A broker of the test's own, to be stopped and frozen."""
    server = EmbeddedValkey(data_dir / "valkey", tcp=True, durable=False)
    server.start()
    yield server
    server.stop()


def test_without_the_broker_jobs_are_accepted_and_canceled(
    settings: Settings, engine: Engine, broker: EmbeddedValkey
) -> None:
    own = settings.model_copy(update={"broker_url": broker.url()})
    run, job = prepare(engine)
    with in_thread(own, engine) as api:
        assert api.http.post(RUNS, json=run).status_code == 201
        broker.stop()
        took, answer = seconds(lambda: api.http.post(RUNS, json=run))
        assert answer.status_code == 201
        assert took < NOT_ENDLESS
        assert api.http.post(f"/api/v2/jobs/{job}/cancel/").status_code == 202
        ready = api.http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert ready.json()["broker"] != "ok"
        assert count_jobs(engine) == 3
        broker.start()
        wait_until(lambda: api.http.get("/readyz").json()["broker"] == "ok")


def test_a_frozen_broker_costs_seconds_not_the_answer(
    settings: Settings, engine: Engine, broker: EmbeddedValkey
) -> None:
    own = settings.model_copy(update={"broker_url": broker.url()})
    run, _ = prepare(engine)
    with in_thread(own, engine) as api:
        os.kill(broker.process.pid, signal.SIGSTOP)
        try:
            for _ in range(3):
                took, answer = seconds(lambda: api.http.post(RUNS, json=run))
                assert answer.status_code == 201
                assert took < NOT_ENDLESS
        finally:
            os.kill(broker.process.pid, signal.SIGCONT)
    assert count_jobs(engine) == 4
