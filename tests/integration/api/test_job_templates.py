"""``job_templates/`` and their launch: fields of the dialect, prompts, what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, select, text

from dispatcher.db import tables as t
from dispatcher.db.change import read_counter
from tests.api_server import Api
from tests.factories import default_group, default_organization, make_job
from tests.integration.api.conftest import Shared, woken
from tests.templates import make_inventory, make_project, make_template, updated

TEMPLATES = "/api/v2/job_templates/"


@pytest.fixture
def ground(engine: Engine) -> dict[str, int]:
    return make_ground(engine)


@pytest.fixture(scope="module")
def lasting(shared: Shared) -> dict[str, int]:
    """The same on the server of tests whose requests are all refused."""
    return make_ground(shared.engine)


def make_ground(engine: Engine) -> dict[str, int]:
    """A project with content, and an inventory of four hosts."""
    with engine.begin() as connection:
        project = make_project(connection, name="tree")
        updated(connection, project)
        return {
            "organization": default_organization(connection),
            "project": project,
            "inventory": make_inventory(connection, ["a", "b", "c", "d"], name="hosts"),
        }


def made(api: Api, ground: dict[str, int], **fields: Any) -> dict[str, Any]:
    body = {
        "name": "deploy",
        "playbook": "site.yml",
        "project": ground["project"],
        "inventory": ground["inventory"],
    }
    answer = api.http.post(TEMPLATES, json=body | fields)
    assert answer.status_code == 201, answer.text
    template: dict[str, Any] = answer.json()
    return template


@pytest.fixture(scope="module")
def asking(shared: Shared, lasting: dict[str, int]) -> dict[str, Any]:
    """A template that asks for everything."""
    asks = [column.name for column in t.job_template.c if column.name.startswith("ask_")]
    return made(
        shared.api, lasting, name="asks", host_lock="exclusive", **dict.fromkeys(asks, True)
    )


def launch(api: Api, template: dict[str, Any], body: dict[str, Any] | None = None, **more: Any):
    return api.http.post(template["related"]["launch"], json=body or {}, **more)


def count(engine: Engine, table: str = "job") -> int:
    with engine.connect() as connection:
        return int(connection.scalar(text(f"SELECT count(*) FROM {table}")) or 0)


def inputs(engine: Engine, job_id: int) -> Any:
    with engine.connect() as connection:
        return connection.execute(
            select(t.job, t.job_input)
            .join(t.job_input, t.job_input.c.job_id == t.job.c.id)
            .where(t.job.c.id == job_id)
        ).one()


def test_a_template_is_made_read_changed_listed_and_deleted(
    api: Api, ground: dict[str, int]
) -> None:
    template = made(
        api,
        ground,
        extra_vars="---\na: 1\n",
        job_tags="one, two",
        skip_tags="three",
        limit="a:b",
        ask_variables_on_launch=True,
        allow_simultaneous=True,
    )
    assert {
        name: template[name]
        for name in ("type", "organization", "extra_vars", "job_tags", "skip_tags", "limit")
    } == {
        "type": "job_template",
        # by default the project's
        "organization": ground["organization"],
        "extra_vars": '{"a": 1}',
        "job_tags": "one,two",
        "skip_tags": "three",
        "limit": "a:b",
    }
    assert template["summary_fields"]["inventory"]["name"] == "hosts"
    assert (template["ask_variables_on_launch"], template["ask_limit_on_launch"]) == (True, False)
    assert api.http.get(template["url"]).json() == template
    changed = api.http.patch(template["url"], json={"job_tags": "", "extra_vars": {"b": [2]}})
    assert (changed.json()["job_tags"], changed.json()["extra_vars"]) == ("", '{"b": [2]}')
    assert changed.json()["skip_tags"] == "three"
    for query in ("name=deploy", "project__name=tree", "inventory__name=hosts", "search=site"):
        found = api.http.get(f"{TEMPLATES}?{query}").json()
        assert [each["id"] for each in found["results"]] == [template["id"]], query
    assert api.http.delete(template["url"]).status_code == 204
    assert api.http.get(template["url"]).status_code == 404


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": ""}, "name"),
        ({"playbook": "/etc/passwd"}, "playbook"),
        ({"project": 999}, "project"),
        ({"inventory": 999}, "inventory"),
        ({"organization": 999}, "organization"),
        ({"extra_vars": "a: ["}, "extra_vars"),
        ({"extra_vars": "[1]"}, "extra_vars"),
        ({"extra_vars": {"1x": 2}}, "extra_vars"),
        ({"job_tags": "-x"}, "job_tags"),
        ({"skip_tags": "-x"}, "skip_tags"),
        ({"limit": "@file"}, "limit"),
        ({"job_type": "scan"}, "job_type"),
        ({"verbosity": 6}, "verbosity"),
        ({"forks": -1}, "forks"),
        ({"job_slice_count": 0}, "job_slice_count"),
        ({"scm_branch": "--x"}, "scm_branch"),
        ({"instance_groups": [999]}, "instance_groups"),
        ({"host_lock": "maybe"}, "host_lock"),
        ({"ask_limit_on_launch": 1}, "ask_limit_on_launch"),
        ({"credentials": [1]}, "credentials"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(
    shared: Shared, lasting: dict[str, int], fields: dict[str, Any], wrong: str
) -> None:
    body = {"name": "x", "playbook": "site.yml", "project": lasting["project"]}
    before = count(shared.engine, "job_template")
    answer = shared.api.http.post(TEMPLATES, json=body | fields)
    assert (answer.status_code, list(answer.json())) == (400, [wrong]), answer.text
    assert count(shared.engine, "job_template") == before


def test_a_template_without_project_needs_its_organization(api: Api) -> None:
    answer = api.http.post(TEMPLATES, json={"name": "x", "playbook": "site.yml"})
    assert answer.json() == {"organization": ["is required"]}


def test_the_limit_of_a_template_wakes_the_planner_and_words_do_not(
    api: Api, engine: Engine, ground: dict[str, int], broker_url: str
) -> None:
    url = made(api, ground)["url"]
    with engine.connect() as connection:
        before = read_counter(connection)
    api.http.patch(url, json={"description": "new"})
    assert woken(broker_url) == set()
    api.http.patch(url, json={"max_concurrent_jobs": 2})
    with engine.connect() as connection:
        assert read_counter(connection) == before + 1
    assert woken(broker_url) == {"task"}


def test_a_template_with_unfinished_jobs_is_not_deleted(
    api: Api, engine: Engine, ground: dict[str, int]
) -> None:
    template = made(api, ground)
    job = launch(api, template).json()
    refused = api.http.delete(template["url"])
    assert (refused.status_code, refused.json()["active_jobs"]) == (409, [job["id"]])


def test_a_launch_without_a_body_is_a_job_of_the_template(
    api: Api, engine: Engine, ground: dict[str, int], broker_url: str
) -> None:
    template = made(api, ground, extra_vars={"a": 1}, job_tags="x,y", limit="a:b")
    answer = api.http.post(template["related"]["launch"])
    assert answer.status_code == 201, answer.text
    job = answer.json()
    assert answer.headers["Location"] == job["url"] == f"/api/v2/jobs/{job['id']}/"
    assert (job["job"], job["ignored_fields"], job["type"]) == (job["id"], {}, "job")
    assert (job["job_template"], job["inventory"], job["project"]) == (
        template["id"],
        ground["inventory"],
        ground["project"],
    )
    assert (job["extra_vars"], job["job_tags"], job["limit"]) == ('{"a": 1}', "x,y", "a:b")
    assert job["task_impact"] == 3
    assert job["summary_fields"]["job_template"]["name"] == "deploy"
    assert "task" in woken(broker_url)
    shown = api.http.get(job["url"]).json()
    assert shown["related"]["job_template"] == template["url"]
    listed = api.http.get(template["related"]["jobs"]).json()["results"]
    assert [each["id"] for each in listed] == [job["id"]]


def test_prompts_are_taken_where_the_template_asks_and_named_where_not(
    api: Api, engine: Engine, ground: dict[str, int]
) -> None:
    template = made(
        api,
        ground,
        extra_vars={"a": 1, "b": 1},
        **{
            f"ask_{name}_on_launch": True
            for name in ("variables", "tags", "verbosity", "instance_groups", "job_type")
        },
    )
    with engine.begin() as connection:
        group = default_group(connection)
    answer = launch(
        api,
        template,
        {
            "extra_vars": '{"b": 2}',
            "job_tags": "t1, t2",
            "skip_tags": "t3",
            "verbosity": 3,
            "limit": "a",
            "instance_groups": [group],
            "job_type": "check",
            "credentials": [],
            "credential_passwords": {},
        },
    )
    assert answer.status_code == 201, answer.text
    assert answer.json()["ignored_fields"] == {"skip_tags": "t3", "limit": "a", "credentials": []}
    row = inputs(engine, answer.json()["id"])
    assert (row.extra_vars, row.tags, row.skip_tags) == ({"a": 1, "b": 2}, ["t1", "t2"], [])
    assert (row.verbosity, row.limit_pattern, row.check_mode) == (3, "", True)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"extra_vars": "a: ["}, "extra_vars"),
        ({"extra_vars": {"1x": 1}}, "extra_vars"),
        ({"job_tags": "-x"}, "job_tags"),
        ({"limit": "~("}, "limit"),
        ({"limit": "-x"}, "limit"),
        ({"inventory": 999}, "inventory"),
        ({"verbosity": 9}, "verbosity"),
        ({"instance_groups": [999]}, "instance_groups"),
        ({"scm_branch": "a..b"}, "scm_branch"),
        ({"credentials": [1]}, "credentials"),
        ({"labels": [1]}, "labels"),
        ({"color": 1}, "color"),
        ({"forks": "5"}, "forks"),
    ],
)
def test_a_wrong_prompt_is_named_and_nothing_is_launched(
    shared: Shared, asking: dict[str, Any], body: dict[str, Any], wrong: str
) -> None:
    before = count(shared.engine)
    answer = launch(shared.api, asking, body)
    assert (answer.status_code, list(answer.json())) == (400, [wrong]), answer.text
    assert count(shared.engine) == before


def test_what_the_template_lacks_must_be_given_at_launch(
    api: Api, engine: Engine, ground: dict[str, int]
) -> None:
    template = made(api, ground, inventory=None, ask_inventory_on_launch=True)
    page = api.http.get(template["related"]["launch"]).json()
    assert (page["can_start_without_user_input"], page["inventory_needed_to_start"]) == (
        False,
        True,
    )
    refused = launch(api, template)
    assert (refused.status_code, list(refused.json())) == (400, ["inventory"])
    given = launch(api, template, {"inventory": ground["inventory"]})
    assert (given.status_code, given.json()["inventory"]) == (201, ground["inventory"])


def test_the_launch_page_says_what_is_asked_and_what_holds_without(
    api: Api, ground: dict[str, int]
) -> None:
    template = made(api, ground, job_tags="x", extra_vars={"a": 1}, ask_tags_on_launch=True)
    page = api.http.get(template["related"]["launch"]).json()
    assert (page["ask_tags_on_launch"], page["ask_limit_on_launch"]) == (True, False)
    assert page["can_start_without_user_input"] is True
    assert page["defaults"]["job_tags"] == "x"
    assert page["defaults"]["extra_vars"] == '{"a": 1}'
    assert page["defaults"]["inventory"] == {"id": ground["inventory"], "name": "hosts"}
    assert api.http.get(template["related"]["survey_spec"]).json()["spec"] == []


def test_a_launch_in_slices_answers_a_workflow_job(
    api: Api, engine: Engine, ground: dict[str, int]
) -> None:
    template = made(api, ground, job_slice_count=3)
    answer = launch(api, template)
    assert answer.status_code == 201, answer.text
    run = answer.json()
    assert (run["type"], run["workflow_job"], run["is_sliced_job"]) == (
        "workflow_job",
        run["id"],
        True,
    )
    assert answer.headers["Location"] == run["url"] == f"/api/v2/workflow_jobs/{run['id']}/"
    nodes = api.http.get(run["related"]["workflow_nodes"]).json()["results"]
    assert [node["slice_number"] for node in nodes] == [1, 2, 3]
    assert {node["unified_job_template"] for node in nodes} == {template["id"]}


def test_the_same_key_and_body_is_the_same_job(
    api: Api, engine: Engine, ground: dict[str, int]
) -> None:
    template = made(api, ground, ask_limit_on_launch=True)
    key = {"Idempotency-Key": "build-7"}
    before = count(engine)
    first = launch(api, template, headers=key)
    again = launch(api, template, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    other = launch(api, template, {"limit": "a"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "key_reused")
    assert count(engine) == before + 1


def test_a_launch_of_what_is_not_there_is_404(api: Api) -> None:
    assert api.http.post(f"{TEMPLATES}999/launch/", json={}).status_code == 404
    assert api.http.get(f"{TEMPLATES}999/launch/").status_code == 404


def test_jobs_of_runs_belong_to_no_template(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        job_id = make_job(connection)
        make_template(connection, None, None)
    job = api.http.get(f"/api/v2/jobs/{job_id}/").json()
    assert (job["job_template"], job["project"], job["inventory"]) == (None, None, None)
    assert job["job_slice_count"] == 1
