"""`jobs/N/explain/`: a sensible answer in every state, from one snapshot, without any write."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, insert, text, update

from dispatcher.db import tables as t
from tests.api_server import Api
from tests.factories import default_group, default_organization, make_job, make_node


def explained(api: Api, job_id: int) -> dict[str, Any]:
    answer = api.http.get(f"/api/v2/jobs/{job_id}/explain/")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def codes(found: dict[str, Any]) -> list[str]:
    return [blocker["code"] for blocker in found["blockers"]]


def ago(seconds: float) -> Any:
    return text(f"dispatcher_now() - make_interval(secs => {seconds})")


def test_a_pending_job_names_every_blocker_its_position_and_when_it_may_start(
    api: Api, engine: Engine
) -> None:
    lock = {"host_lock": "exclusive", "lock_keys": ["host:web1:22"]}
    with engine.begin() as connection:
        make_node(connection, capacity=4)
        for _ in range(3):
            make_job(connection, status="successful", started=ago(100))
        holder = make_job(connection, status="running", task_impact=3, **lock)
        connection.execute(update(t.job).where(t.job.c.id == holder).values(started=ago(40)))
        first = make_job(connection, **lock)
        second = make_job(connection, **lock)
    found = explained(api, first)
    assert (found["status"], found["position"]) == ("pending", 1)
    assert codes(found) == ["host_lock", "no_capacity"]
    assert found["blockers"][0]["data"]["jobs"] == [holder]
    assert found["words"] == f"Waits for the locks on web1:22: held by job {holder}."
    start = datetime.fromisoformat(found["expected_start"])
    with engine.begin() as connection:
        now = connection.scalar(text("SELECT dispatcher_now()"))
    # jobs have taken 100 s lately, and the holder runs for 40 s
    assert timedelta(seconds=50) < start - now < timedelta(seconds=65)
    behind = explained(api, second)
    assert behind["position"] == 2
    assert datetime.fromisoformat(behind["expected_start"]) - start >= timedelta(seconds=95)


def test_a_job_that_nothing_blocks_is_started_by_the_next_pass(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        make_node(connection)
        job_id = make_job(connection)
    found = explained(api, job_id)
    assert (found["blockers"], found["words"]) == ([], "The next pass starts it.")
    assert found["expected_start"] is not None


def test_what_waits_without_a_known_end_has_no_expected_start(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        job_id = make_job(connection)
        connection.execute(
            insert(t.pause).values(organization_id=default_organization(connection), reason="audit")
        )
    found = explained(api, job_id)
    assert codes(found) == ["paused", "no_nodes_online"]
    assert found["words"] == "Organization Default is paused: audit."
    assert found["expected_start"] is None


def test_a_job_whose_dependency_failed_is_told_so(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        make_node(connection)
        update_id = make_job(connection, status="failed", kind="project_update")
        job_id = make_job(connection)
        connection.execute(insert(t.job_dependency).values(job_id=job_id, depends_on_id=update_id))
    found = explained(api, job_id)
    assert found["words"].startswith("The next pass ends it: Previous Task Failed: {")
    assert (found["blockers"], found["position"], found["expected_start"]) == ([], None, None)


def test_pending_jobs_that_the_task_manager_does_not_look_at_say_why(
    api: Api, engine: Engine
) -> None:
    with engine.begin() as connection:
        fresh = make_job(connection, dependencies_processed=False)
        struck = make_job(connection, strikes=2, quarantined_until=ago(-60))
        approval = make_job(connection, kind="approval", task_impact=0, preferred_groups=[])
        connection.execute(insert(t.approval).values(job_id=approval, expires=None))
    assert [codes(explained(api, job)) for job in (fresh, struck, approval)] == [
        ["unprocessed"],
        ["quarantined"],
        ["approval"],
    ]
    assert "has failed 2 times" in explained(api, struck)["words"]
    assert explained(api, approval)["words"] == "Waits for somebody to approve or deny it."


@pytest.mark.parametrize(
    ("status", "columns", "words"),
    [
        ("waiting", {}, "Node n1 was chosen and has not taken it yet."),
        ("waiting", {"queued_on_node": True}, "Node n1 has it in its queue."),
        ("running", {}, "Runs on node n1."),
        ("running", {"cancel_requested": True}, "Runs on node n1; its cancel was asked for."),
        ("failed", {"explanation": "1 of 2 hosts failed."}, "1 of 2 hosts failed."),
        ("successful", {}, "Ended: successful."),
    ],
)
def test_every_other_state_is_told_in_words(
    api: Api, engine: Engine, status: str, columns: dict[str, Any], words: str
) -> None:
    with engine.begin() as connection:
        make_node(connection)
        job_id = make_job(connection, status=status, **columns)
    found = explained(api, job_id)
    assert (found["status"], found["words"], found["blockers"]) == (status, words, [])
    assert (found["position"], found["expected_start"]) == (None, None)


def test_a_running_job_may_end_when_jobs_of_its_template_did(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        make_node(connection)
        template = connection.scalar(
            insert(t.job_template)
            .values(organization_id=default_organization(connection), name="t", playbook="site.yml")
            .returning(t.job_template.c.id)
        )
        for seconds in (10, 100, 20):
            make_job(
                connection, status="successful", started=ago(seconds), job_template_id=template
            )
        # neither a canceled one nor another kind tells how long a run takes
        make_job(connection, status="canceled", started=ago(900), job_template_id=template)
        job_id = make_job(connection, status="running", job_template_id=template)
        started = connection.scalar(text("SELECT started FROM job WHERE id = :i"), {"i": job_id})
    end = datetime.fromisoformat(explained(api, job_id)["expected_end"])
    assert timedelta(seconds=19) < end - started < timedelta(seconds=21)


def test_a_job_behind_the_head_keeps_its_true_position(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        first = make_job(connection, preferred_groups=[default_group(connection)])
        connection.execute(
            text(
                "INSERT INTO job (uuid, kind, name, organization_id, task_impact, preferred_groups,"
                " dependencies_processed, created) SELECT gen_random_uuid(), kind, name,"
                " organization_id, task_impact, preferred_groups, true, created"
                " + make_interval(secs => n * 0.001) FROM job, generate_series(1, 1000) AS n"
                " WHERE id = :first"
            ),
            {"first": first},
        )
        last = connection.scalar(text("SELECT max(id) FROM job"))
    found = explained(api, last)
    assert (found["position"], found["expected_start"]) == (1001, None)
    assert codes(found) == ["no_nodes_online"]


def test_an_explanation_writes_nothing(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        job_id = make_job(connection)
        before = connection.scalar(text("SELECT xmin FROM job WHERE id = :i"), {"i": job_id})
    explained(api, job_id)
    with engine.begin() as connection:
        row = connection.execute(
            text("SELECT xmin, pending_reason FROM job WHERE id = :i"), {"i": job_id}
        ).one()
        holders = connection.scalar(
            text("SELECT count(*) FROM manager_lease WHERE holder IS NOT NULL")
        )
    assert (row.xmin, row.pending_reason, holders) == (before, None, 0)
