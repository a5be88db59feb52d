"""``projects/`` and ``project_updates/``."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import Engine, func, select, text

from dispatcher.actions.save_project import delete_project
from dispatcher.db import tables as t
from dispatcher.db.change import read_counter
from dispatcher.errors import Conflict
from tests.api_server import Api
from tests.factories import add_events, make_job, make_node
from tests.integration.api.conftest import woken
from tests.templates import make_project, make_template, updated
from tests.waiting import wait_until

PROJECTS = "/api/v2/projects/"
GIT = {"name": "site", "organization": 1, "scm_type": "git", "scm_url": "https://git.example/x"}


@pytest.fixture
def project(engine: Engine) -> int:
    with engine.begin() as connection:
        return make_project(connection)


def test_a_project_is_made_read_changed_and_deleted(api: Api) -> None:
    made = api.http.post(PROJECTS, json={**GIT, "scm_update_on_launch": True})
    assert made.status_code == 201, made.text
    body = made.json()
    assert api.http.get(made.headers["Location"]).json() == body
    assert (body["status"], body["last_job_run"]) == ("never updated", None)
    assert body["scm_update_on_launch"] is True
    assert body["summary_fields"]["organization"]["name"] == "Default"
    local = {"scm_type": "local", "scm_url": "", "local_path": "/srv/site"}
    changed = api.http.patch(body["url"], json=local)
    assert changed.json()["local_path"] == "/srv/site"
    put = api.http.put(body["url"], json={**GIT, "local_path": ""})
    assert (put.status_code, put.json()["scm_type"]) == (200, "git")
    assert put.json()["scm_update_on_launch"] is True
    found = api.http.get(PROJECTS, params={"organization__name": "Default", "search": "site"})
    assert found.json()["count"] == 1
    assert api.http.delete(body["url"]).status_code == 204
    assert api.http.get(PROJECTS).json()["count"] == 0


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": None}, "name"),
        ({"name": " "}, "name"),
        ({"organization": 999}, "organization"),
        ({"organization": "1"}, "organization"),
        ({"organization": 2**70}, "organization"),
        ({"scm_type": "svn"}, "scm_type"),
        ({"scm_url": "https://me:secret@git.example/x"}, "scm_url"),
        ({"scm_url": "ext::sh -c x"}, "scm_url"),
        ({"local_path": "/x"}, "local_path"),
        ({"scm_branch": "-x"}, "scm_branch"),
        ({"scm_update_cache_timeout": -1}, "scm_update_cache_timeout"),
        ({"timeout": 10**12}, "timeout"),
        ({"update_on_launch": True}, "update_on_launch"),
        ({"credential": 1}, "credential"),
        ({"description": "\x00"}, "description"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(
    api: Api, engine: Engine, changed: dict[str, Any], field: str
) -> None:
    answer = api.http.post(PROJECTS, json={**GIT, **changed})
    assert (answer.status_code, list(answer.json())) == (400, [field]), answer.text
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(t.project)) == 0


def test_a_name_is_taken_once_in_an_organization(api: Api) -> None:
    other = api.http.post("/api/v2/organizations/", json={"name": "ops"}).json()["id"]
    assert api.http.post(PROJECTS, json=GIT).status_code == 201
    again = api.http.post(PROJECTS, json=GIT)
    assert (again.status_code, list(again.json())) == (400, ["name"])
    assert api.http.post(PROJECTS, json={**GIT, "organization": other}).status_code == 201


def test_an_update_is_launched_and_followed_under_its_own_paths(
    api: Api, engine: Engine, project: int, broker_url: str
) -> None:
    path = f"{PROJECTS}{project}/update/"
    assert api.http.get(path).json() == {"can_update": True}
    answer = api.http.post(path)
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert (job["type"], job["status"], job["project"]) == ("project_update", "pending", project)
    assert job["project_update"] == job["id"]
    assert job["launched_by"]["name"] == "tests"
    assert woken(broker_url) == {"task"}
    shown = api.http.get(job["url"]).json()
    assert shown["url"] == f"/api/v2/project_updates/{job['id']}/"
    assert api.http.get(PROJECTS + f"{project}/").json()["status"] == "pending"
    listed = api.http.get("/api/v2/project_updates/", params={"project": project}).json()
    assert [each["id"] for each in listed["results"]] == [job["id"]]
    with engine.begin() as connection:
        make_node(connection)
        add_events(connection, job["id"], ["fetched"])
    assert api.http.get(shown["related"]["stdout"], params={"format": "txt"}).text == "fetched\n"
    events = api.http.get(shown["related"]["events"]).json()
    assert [event["stdout"] for event in events["results"]] == ["fetched"]
    assert api.http.get(shown["related"]["cancel"]).json() == {"can_cancel": True}
    assert api.http.post(shown["related"]["cancel"]).status_code == 202
    assert api.http.get(job["url"]).json()["status"] == "canceled"
    assert api.http.post(shown["related"]["cancel"]).status_code == 405


def test_a_launch_raises_the_change_counter(api: Api, engine: Engine, project: int) -> None:
    with engine.connect() as connection:
        before = read_counter(connection)
    api.http.post(f"{PROJECTS}{project}/update/", json={})
    with engine.connect() as connection:
        assert read_counter(connection) == before + 1


def test_a_repeated_key_is_the_same_update(api: Api, engine: Engine, project: int) -> None:
    path, key = f"{PROJECTS}{project}/update/", {"Idempotency-Key": "k"}
    first, again = (api.http.post(path, headers=key) for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
    assert api.http.post(path).json()["id"] != first.json()["id"]
    with engine.begin() as connection:
        other = make_project(connection)
    reused = api.http.post(f"{PROJECTS}{other}/update/", headers=key)
    assert (reused.status_code, reused.json()["code"]) == (409, "key_reused")
    assert api.http.get("/api/v2/project_updates/").json()["count"] == 2


def test_what_no_update_can_be_launched_of_is_said(api: Api, project: int) -> None:
    assert api.http.post(f"{PROJECTS}999/update/").status_code == 404
    refused = api.http.post(f"{PROJECTS}{project}/update/", json={"scm_branch": "x"})
    assert (refused.status_code, list(refused.json())) == (400, ["scm_branch"])
    assert api.http.delete(f"{PROJECTS}{project}/update/").status_code == 405


def test_jobs_of_another_kind_are_not_found_among_the_updates(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        job = make_job(connection)
    for path in ("", "events/", "stdout/", "cancel/"):
        assert api.http.get(f"/api/v2/project_updates/{job}/{path}").status_code == 404
    assert api.http.post(f"/api/v2/project_updates/{job}/cancel/").status_code == 404


def test_a_project_shows_its_last_and_its_current_update(
    api: Api, engine: Engine, project: int
) -> None:
    with engine.begin() as connection:
        updated(connection, project, name="old")
        last = updated(connection, project)
        other = make_project(connection)
        updated(connection, other)
    body = api.http.get(f"{PROJECTS}{project}/").json()
    assert (body["status"], body["scm_revision"], body["last_job_failed"]) == (
        "successful",
        "r",
        False,
    )
    assert body["related"]["last_update"] == f"/api/v2/project_updates/{last}/"
    job = api.http.post(f"{PROJECTS}{project}/update/").json()["id"]
    body = api.http.get(f"{PROJECTS}{project}/").json()
    assert body["status"] == "pending"
    assert body["summary_fields"]["current_job"]["id"] == job
    assert body["summary_fields"]["last_job"]["id"] == last


def test_a_project_in_use_is_kept_and_says_by_what(api: Api, engine: Engine, project: int) -> None:
    with engine.begin() as connection:
        template = make_template(connection, project, None)
    answer = api.http.delete(f"{PROJECTS}{project}/")
    assert (answer.status_code, answer.json()["code"]) == (409, "in_use")
    assert "job template" in answer.json()["detail"]
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM job_template WHERE id = :id"), {"id": template})
    job = api.http.post(f"{PROJECTS}{project}/update/").json()["id"]
    answer = api.http.delete(f"{PROJECTS}{project}/")
    assert answer.json()["active_jobs"] == [job]
    api.http.post(f"/api/v2/jobs/{job}/cancel/")
    assert api.http.delete(f"{PROJECTS}{project}/").status_code == 204
    left = api.http.get(f"/api/v2/project_updates/{job}/").json()
    assert (left["project"], left["status"]) == (None, "canceled")


def test_a_delete_waits_for_a_launch_that_came_first_and_then_refuses(
    engine: Engine, project: int
) -> None:
    """Without its lock the delete saw no job, and took the project from under one."""
    refused: list[Conflict] = []

    def delete() -> None:
        with pytest.raises(Conflict) as caught, engine.begin() as connection:
            delete_project(connection, project)
        refused.append(caught.value)

    def waits() -> bool:
        with engine.connect() as connection:
            return bool(
                connection.scalar(
                    text(
                        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                        " AND datname = current_database()"
                    )
                )
            )

    deleting = threading.Thread(target=delete)
    with engine.begin() as connection:
        job = make_job(connection, kind="project_update", project_id=project)
        deleting.start()
        wait_until(waits, what="the delete waits")
    deleting.join()
    assert refused[0].extra == {"active_jobs": [job]}
