"""``jobs/N/relaunch/``: the same inputs once more, on all hosts or on those that failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select, text

from dispatcher.db import tables as t
from dispatcher.domain.outcome import Outcome
from tests.acting_node import ActingNode
from tests.api_server import Api
from tests.factories import make_job, store_bundle
from tests.templates import make_inventory, make_project, make_template, updated


@pytest.fixture
def node(engine: Engine) -> ActingNode:
    return ActingNode(engine)


def relaunch(api: Api, job_id: int, **body: Any) -> Any:
    return api.http.post(f"/api/v2/jobs/{job_id}/relaunch/", json=body)


def end(engine: Engine, node: ActingNode, job_id: int, failed: Sequence[str] = ()) -> None:
    node.claim(job_id)
    with engine.begin() as connection:
        for host in ("ok1", *failed):
            connection.execute(
                insert(t.job_host_summary).values(
                    job_id=job_id, host_name=host, failed=host in failed
                )
            )
    node.finish(job_id, Outcome.FAILED_HOSTS if failed else Outcome.SUCCESSFUL)


def inputs(engine: Engine, job_id: int) -> dict[str, Any]:
    with engine.connect() as connection:
        row = connection.execute(select(t.job_input).where(t.job_input.c.job_id == job_id)).one()
        job = connection.execute(select(t.job).where(t.job.c.id == job_id)).one()
    names = ("name", "priority", "host_lock", "lock_keys", "bundle_digest", "preferred_groups")
    found = {name: getattr(job, name) for name in names}
    return found | {k: v for k, v in row._mapping.items() if k not in ("job_id", "secret_vars")}


def test_a_run_is_launched_again_with_all_of_its_inputs(
    api: Api, engine: Engine, node: ActingNode
) -> None:
    with engine.begin() as connection:
        digest = store_bundle(connection, {"site.yml": "- hosts: all\n"})
    body = {
        "playbook": "site.yml",
        "bundle_digest": digest,
        "inventory": "ok1\nbad1\nbad2\n",
        "limit": "ok1:bad1:bad2",
        "extra_vars": {"a": [1, {"b": None}]},
        "secret_vars": {"p": "hunter2"},
        "tags": ["x"],
        "forks": 3,
        "check_mode": True,
        "host_lock": "exclusive",
        "priority": 4,
        "max_failed": "10%",
    }
    job_id = api.http.post("/api/v2/runs/", json=body).json()["id"]
    early = relaunch(api, job_id)
    assert (early.status_code, early.json()["code"]) == (409, "not_final")
    end(engine, node, job_id, ["bad1", "bad2"])
    page = api.http.get(f"/api/v2/jobs/{job_id}/relaunch/").json()
    assert (page["can_relaunch"], page["retry_counts"]) == (True, {"all": 3, "failed": 2})

    answer = relaunch(api, job_id)
    assert answer.status_code == 201, answer.text
    again = answer.json()
    assert answer.headers["Location"] == again["url"]
    assert (again["launch_type"], again["job"]) == ("relaunch", again["id"])
    assert inputs(engine, again["id"]) == inputs(engine, job_id)
    with engine.connect() as connection:
        secret = connection.scalar(
            text("SELECT secret_vars FROM job_input WHERE job_id = :i"), {"i": again["id"]}
        )
    assert api.services is not None
    assert api.services.cipher.decrypt(bytes(secret)) == {"p": "hunter2"}

    failed = relaunch(api, job_id, hosts="failed").json()
    assert (failed["limit"], failed["task_impact"]) == ("bad1,bad2", 3)


def test_a_job_of_a_template_is_launched_again_whatever_the_template_says_now(
    api: Api, engine: Engine, node: ActingNode
) -> None:
    with engine.begin() as connection:
        project = make_project(connection)
        updated(connection, project)
        inventory = make_inventory(connection, ["ok1", "bad1"])
        other = make_inventory(connection, ["x"])
        template = make_template(
            connection,
            project,
            inventory,
            extra_vars={"a": 1},
            tags=["t"],
            host_lock="exclusive",
            ask_variables_on_launch=True,
        )
    launched = api.http.post(
        f"/api/v2/job_templates/{template}/launch/", json={"extra_vars": {"b": 2}}
    ).json()
    end(engine, node, launched["id"], ["bad1"])
    changed = {
        "extra_vars": {"new": 1},
        "job_tags": "",
        "verbosity": 3,
        "inventory": other,
        "ask_variables_on_launch": False,
    }
    assert api.http.patch(f"/api/v2/job_templates/{template}/", json=changed).status_code == 200
    again = relaunch(api, launched["id"])
    assert again.status_code == 201, again.text
    same = ("extra_vars", "job_tags", "verbosity", "inventory", "limit", "job_template")
    assert {n: again.json()[n] for n in same} == {n: launched[n] for n in same}
    assert again.json()["ignored_fields"] == {}
    failed = relaunch(api, launched["id"], hosts="failed").json()
    assert (failed["limit"], failed["task_impact"]) == ("bad1", 2)
    assert inputs(engine, failed["id"])["lock_keys"] == ["host:bad1:22"]

    with engine.begin() as connection:
        connection.execute(text("UPDATE job SET job_template_id = NULL"))
    gone = relaunch(api, launched["id"])
    assert (gone.status_code, gone.json()["code"]) == (409, "template_gone")


def test_what_cannot_be_launched_again_says_why_and_launches_nothing(
    api: Api, engine: Engine, node: ActingNode
) -> None:
    with engine.begin() as connection:
        job_id = make_job(connection)
        update = make_job(connection, kind="project_update", status="successful")
    end(engine, node, job_id)
    none = relaunch(api, job_id, hosts="failed")
    assert (none.status_code, none.json()["code"], none.json()["choices"]) == (
        409,
        "no_failed_hosts",
        ["all"],
    )
    for body, wrong in [
        ({"hosts": "some"}, "hosts"),
        ({"credential_passwords": {"a": "b"}}, "credential_passwords"),
        ({"color": 1}, "color"),
    ]:
        answer = relaunch(api, job_id, **body)
        assert (answer.status_code, list(answer.json())) == (400, [wrong])
    for missing in (999, update):
        assert relaunch(api, missing).status_code == 404
        assert api.http.get(f"/api/v2/jobs/{missing}/relaunch/").status_code == 404
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM job")) == 2
