"""What the API's log says of a job's life: one line for a launch and one for a cancel."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine, text

from dispatcher.settings import Settings
from tests.api_server import in_thread
from tests.factories import make_job, make_node, store_bundle
from tests.recorded_logs import configured

SENTINEL = "hunter22-sentinel"


def test_a_launch_and_a_cancel_are_recorded_with_their_job_and_no_variables(
    settings: Settings, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    with engine.begin() as connection:
        make_node(connection, "n1")
        digest = store_bundle(connection, {"site.yml": "- hosts: all\n"})
        running = make_job(connection, status="running")
        dispatch = connection.scalar(
            text("SELECT dispatch_id FROM job WHERE id = :job"), {"job": running}
        )
    run = {
        "playbook": "site.yml",
        "bundle_digest": digest,
        "inventory": f"web1 ansible_password={SENTINEL}\n",
        "extra_vars": {"a": SENTINEL},
        "secret_vars": {"b": SENTINEL},
    }
    key = {"Idempotency-Key": "k"}
    with (
        configured(settings.model_copy(update={"log_format": "json"})),
        in_thread(settings, engine) as api,
    ):
        job = api.http.post("/api/v2/runs/", json=run, headers=key).json()["id"]
        assert api.http.post("/api/v2/runs/", json=run, headers=key).status_code == 200
        for number in (job, running):
            assert api.http.post(f"/api/v2/jobs/{number}/cancel/").status_code == 202
    written = capsys.readouterr().err
    assert SENTINEL not in written
    assert of_jobs(written) == [
        {"event": "job_launched", "job_id": job},
        {"event": "job_launched_before", "job_id": job},
        {"event": "job_cancel_requested", "job_id": job, "status": "canceled"},
        {
            "event": "job_cancel_requested",
            "job_id": running,
            "status": "running",
            "dispatch_id": str(dispatch),
            "node": "n1",
        },
    ]


def of_jobs(written: str) -> list[dict[str, Any]]:
    """The records that name a job, without what every record has."""
    records = [json.loads(line) for line in written.splitlines()]
    every = ("timestamp", "level", "logger", "role", "request_id")
    return [
        {name: value for name, value in record.items() if name not in every}
        for record in records
        if "job_id" in record
    ]
