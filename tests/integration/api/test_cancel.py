"""``jobs/N/cancel/``."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from sqlalchemy import Engine, text

from tests.api_server import Api
from tests.factories import make_job, make_node
from tests.integration.api.conftest import Shared
from tests.racing import at_once


@pytest.mark.parametrize(
    ("before", "after"),
    [("pending", "canceled"), ("waiting", "canceled"), ("running", "running")],
)
def test_an_unfinished_job_can_be_canceled_again_and_again(
    shared: Shared, before: str, after: str
) -> None:
    with shared.engine.begin() as connection:
        make_node(connection, f"node-{before}")
        job = make_job(connection, status=before)
    path = f"/api/v2/jobs/{job}/cancel/"
    assert shared.api.http.get(path).json() == {"can_cancel": True}
    answer = shared.api.http.post(path)
    assert (answer.status_code, answer.json()) == (202, {"id": job, "status": after})
    shown = shared.api.http.get(f"/api/v2/jobs/{job}/").json()
    assert (shown["status"], shown["cancel_requested"]) == (after, True)
    assert shown["canceled_on"] is not None
    assert shared.api.http.post(path).status_code == (202 if after == "running" else 405)


@pytest.mark.parametrize("status", ["successful", "failed", "error", "canceled"])
def test_a_final_job_cannot_be_canceled(shared: Shared, status: str) -> None:
    with shared.engine.begin() as connection:
        job = make_job(connection, status=status)
    path = f"/api/v2/jobs/{job}/cancel/"
    assert shared.api.http.get(path).json() == {"can_cancel": False}
    answer = shared.api.http.post(path)
    assert (answer.status_code, set(answer.json())) == (405, {"detail"})
    assert answer.headers["Allow"] == "GET"
    assert shared.api.http.get(f"/api/v2/jobs/{job}/").json()["status"] == status


def test_a_job_that_does_not_exist_is_404(shared: Shared) -> None:
    assert shared.api.http.post("/api/v2/jobs/999999/cancel/").status_code == 404


def test_a_running_job_s_node_is_told(shared: Shared) -> None:
    assert shared.api.services is not None
    url = shared.api.services.settings.broker_url
    assert url is not None
    with shared.engine.begin() as connection:
        node = make_node(connection, "told")
        job = make_job(connection, status="running", node_id=node)
    assert shared.api.http.post(f"/api/v2/jobs/{job}/cancel/").status_code == 202
    broker = redis.Redis.from_url(url)
    assert broker.llen("dispatcher:node.told") == 1
    broker.close()


def test_a_hundred_cancels_at_once_are_all_accepted(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        make_node(connection)
        statuses = ("pending", "waiting", "running")
        jobs = [make_job(connection, status=statuses[n % 3]) for n in range(100)]

    def cancel(job: int) -> Any:
        return api.http.post(f"/api/v2/jobs/{job}/cancel/").status_code

    assert at_once([lambda job=job: cancel(job) for job in jobs]) == [202] * 100
    with engine.begin() as connection:
        left = connection.execute(
            text("SELECT status, count(*) FROM job WHERE cancel_requested GROUP BY 1")
        )
        assert dict(left.all()) == {"canceled": 67, "running": 33}


def test_a_hundred_cancels_of_one_job_at_once_are_all_accepted(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        make_node(connection)
        job = make_job(connection, status="running")
    path = f"/api/v2/jobs/{job}/cancel/"
    codes = at_once([lambda: api.http.post(path).status_code] * 100)
    assert codes == [202] * 100
