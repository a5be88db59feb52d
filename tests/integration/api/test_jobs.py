"""``jobs/`` and ``jobs/N/``: what a job says of itself in each of its statuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import insert, text

from dispatcher.db import job_queries
from dispatcher.db import tables as t
from tests.api_server import Api
from tests.factories import add_events, default_group, make_job, make_node
from tests.integration.api.conftest import Shared


@pytest.fixture(scope="module")
def api(shared: Shared) -> Api:
    with shared.engine.begin() as connection:
        make_node(connection, "n1")
    return shared.api


def _make(shared: Shared, **columns: Any) -> int:
    with shared.engine.begin() as connection:
        return make_job(connection, **columns)


def _get(api: Api, job: int) -> dict[str, Any]:
    answer = api.http.get(f"/api/v2/jobs/{job}/")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_a_pending_job_says_why_it_waits(api: Api, shared: Shared) -> None:
    reason = {"code": "no_nodes_online", "data": {"groups": ["default"]}}
    job = _get(api, _make(shared, pending_reason=reason))
    assert job["status"] == "pending"
    assert job["pending_reason"] == reason
    assert "default" in job["job_explanation"]
    assert (job["started"], job["finished"], job["elapsed"]) == (None, None, 0.0)
    assert (job["execution_node"], job["instance_group"], job["failed"]) == ("", None, False)
    assert (job["outcome"], job["exit_code"], job["event_processing_finished"]) == (
        None,
        None,
        False,
    )


def test_a_job_that_nobody_has_looked_at_yet_has_no_explanation(api: Api, shared: Shared) -> None:
    job = _get(api, _make(shared))
    assert (job["pending_reason"], job["job_explanation"]) == (None, "")


def test_a_running_job_says_where_and_how_long(api: Api, shared: Shared) -> None:
    job_id = _make(shared, status="running")
    with shared.engine.begin() as connection:
        add_events(connection, job_id, ["one", "two", "three"])
        group = default_group(connection)
    job = _get(api, job_id)
    assert (job["status"], job["execution_node"]) == ("running", "n1")
    assert job["instance_group"] == group
    assert job["summary_fields"]["instance_group"]["name"] == "default"
    assert job["elapsed"] > 0
    assert job["events_stored"] == 3
    assert job["event_processing_finished"] is False


@pytest.mark.parametrize(
    ("status", "failed", "exit_code"),
    [("successful", False, 0), ("failed", True, 1), ("error", True, 7), ("canceled", True, 3)],
)
def test_a_final_job_says_how_it_ended(
    api: Api, shared: Shared, status: str, failed: bool, exit_code: int
) -> None:
    job = _get(api, _make(shared, status=status, explanation="because"))
    assert (job["status"], job["failed"], job["exit_code"]) == (status, failed, exit_code)
    assert (job["event_processing_finished"], job["events_complete"]) == (True, True)
    assert job["job_explanation"] == "because"
    assert job["finished"] is not None


def test_a_job_shows_what_was_asked_for_but_no_secret(api: Api, shared: Shared) -> None:
    job_id = _make(
        shared,
        name="Störung",
        launched_by="ci",
        priority=3,
        host_lock="exclusive",
        inputs={
            "playbook": "deploy/site.yml",
            "limit_pattern": "web*",
            "extra_vars": {"b": 1, "a": "ü"},
            "secret_vars": b"opaque",
            "tags": ["x", "y"],
            "skip_tags": ["z"],
            "check_mode": True,
            "diff_mode": True,
            "verbosity": 2,
            "forks": 9,
            "timeout": 60,
            "idle_timeout": 30,
            "max_unreachable": "10%",
        },
    )
    job = _get(api, job_id)
    expected = {
        "name": "Störung",
        "playbook": "deploy/site.yml",
        "limit": "web*",
        "job_tags": "x,y",
        "skip_tags": "z",
        "job_type": "check",
        "diff_mode": True,
        "verbosity": 2,
        "forks": 9,
        "timeout": 60,
        "idle_timeout": 30,
        "max_unreachable": "10%",
        "priority": 3,
        "host_lock": "exclusive",
        "launch_type": "manual",
    }
    assert {name: job[name] for name in expected} == expected
    assert json.loads(job["extra_vars"]) == {"b": 1, "a": "ü"}
    assert job["launched_by"] == {"id": None, "name": "ci", "type": "token", "url": ""}
    assert "opaque" not in json.dumps(job)
    assert "secret_vars" not in job


def test_a_canceled_job_says_what_its_playbook_had_reached(api: Api, shared: Shared) -> None:
    job_id = _make(shared, status="canceled")
    with shared.engine.begin() as connection:
        connection.execute(
            insert(t.job_result).values(
                job_id=job_id, artifacts={"version": "1.2"}, playbook_outcome="successful"
            )
        )
    job = _get(api, job_id)
    assert (job["artifacts"], job["playbook_outcome"]) == ({"version": "1.2"}, "successful")


def test_a_list_leaves_out_what_can_be_large(api: Api, shared: Shared) -> None:
    job_id = _make(shared, inputs={"extra_vars": {"big": "x" * 100_000}})
    listed = api.http.get("/api/v2/jobs/", params={"id": job_id}).json()["results"][0]
    whole = _get(api, job_id)
    assert set(whole) - set(listed) == {
        "extra_vars",
        "artifacts",
        "playbook_outcome",
        "job_args",
        "job_cwd",
        "job_env",
        "result_traceback",
    }
    assert {name: whole[name] for name in listed} == listed


def test_jobs_of_other_kinds_are_no_playbook_runs_but_can_be_asked_for(
    api: Api, shared: Shared
) -> None:
    job_id = _make(shared, kind="workflow", status="running")
    with shared.engine.begin() as connection:
        connection.execute(text("DELETE FROM job_input WHERE job_id = :job"), {"job": job_id})
    job = _get(api, job_id)
    assert (job["type"], job["playbook"], job["limit"]) == ("workflow_job", "", "")
    assert api.http.get("/api/v2/jobs/", params={"id": job_id}).json()["count"] == 0


def test_the_status_of_a_job_is_read_by_keys_only(shared: Shared, api: Api) -> None:
    """Whatever the size of the tables: no sequential scan of one that grows."""
    with shared.engine.begin() as connection:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        statement = job_queries._DETAIL.where(t.job.c.id == 1).compile(
            shared.engine, compile_kwargs={"literal_binds": True}
        )
        plan = "\n".join(connection.scalars(text(f"EXPLAIN {statement}".replace(":", "\\:"))))
    for table in ("job", "job_input", "job_progress", "job_result"):
        assert f"Seq Scan on {table} " not in plan
    assert plan.count("Index Scan") >= 4


def test_a_status_is_answered_200_at_every_moment_of_a_jobs_life(api: Api, shared: Shared) -> None:
    job_id = _make(shared)
    moves = (
        "UPDATE job SET status = 'waiting', dispatch_id = gen_random_uuid(), node_id = 1,"
        " instance_group_id = 1, waiting_since = dispatcher_now() WHERE id = :job",
        "UPDATE job SET status = 'running', started = dispatcher_now(), node_epoch = 1"
        " WHERE id = :job",
        "UPDATE job SET status = 'failed', outcome = 'timeout', finished = dispatcher_now()"
        " WHERE id = :job",
    )
    seen = [_get(api, job_id)["status"]]
    for move in moves:
        with shared.engine.begin() as connection:
            connection.execute(text(move), {"job": job_id})
            seen.append(_get(api, job_id)["status"])  # not committed: the row before
        seen.append(_get(api, job_id)["status"])
    assert seen == ["pending", "pending", "waiting", "waiting", "running", "running", "failed"]
