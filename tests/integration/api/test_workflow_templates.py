"""``workflow_job_templates/`` and their nodes: made node by node or as a whole; what cannot run is
refused with the path taken."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests.api_server import Api
from tests.factories import default_organization
from tests.integration.api.conftest import Shared
from tests.templates import make_inventory, make_project, make_template, updated

WORKFLOWS = "/api/v2/workflow_job_templates/"
NODES = "/api/v2/workflow_job_template_nodes/"


@pytest.fixture(scope="module")
def api(shared: Shared) -> Api:
    return shared.api


@pytest.fixture(scope="module")
def engine(shared: Shared) -> Engine:
    return shared.engine


@pytest.fixture(scope="module")
def ground(shared: Shared) -> dict[str, int]:
    """A job template and what it is made of."""
    with shared.engine.begin() as connection:
        project = make_project(connection, name="tree")
        updated(connection, project)
        inventory = make_inventory(connection, ["a", "b"], name="hosts")
        template = make_template(connection, project, inventory, name="deploy")
        return {
            "organization": default_organization(connection),
            "project": project,
            "inventory": inventory,
            "template": template,
        }


@pytest.fixture
def workflow(api: Api, ground: dict[str, int], request: pytest.FixtureRequest) -> dict[str, Any]:
    return made(api, ground, name=request.node.name)


def made(api: Api, ground: dict[str, int], **fields: Any) -> dict[str, Any]:
    body = {"name": "release", "organization": ground["organization"]}
    answer = api.http.post(WORKFLOWS, json=body | fields)
    assert answer.status_code == 201, answer.text
    workflow: dict[str, Any] = answer.json()
    return workflow


def node(api: Api, workflow: dict[str, Any], identifier: str, **fields: Any) -> dict[str, Any]:
    body = {"identifier": identifier, **fields}
    answer = api.http.post(workflow["related"]["workflow_nodes"], json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def lead(api: Api, parent: dict[str, Any], child: dict[str, Any], kind: str = "success") -> Any:
    return api.http.post(parent["related"][f"{kind}_nodes"], json={"id": child["id"]})


def rows(engine: Engine, table: str) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(text(f"SELECT * FROM {table} ORDER BY 1, 2")))


def test_a_workflow_is_made_read_changed_and_deleted(api: Api, ground: dict[str, int]) -> None:
    workflow = made(
        api,
        ground,
        name="whole life",
        extra_vars="a: 1",
        inventory=ground["inventory"],
        limit="a",
        ask_variables_on_launch=True,
    )
    assert (workflow["type"], workflow["extra_vars"]) == ("workflow_job_template", '{"a": 1}')
    assert (workflow["inventory"], workflow["limit"]) == (ground["inventory"], "a")
    changed = api.http.patch(workflow["url"], json={"limit": None, "description": "d"}).json()
    assert (changed["limit"], changed["inventory"], changed["description"]) == (
        "",
        ground["inventory"],
        "d",
    )
    found = api.http.get(WORKFLOWS, params={"name": "whole life"}).json()
    assert [each["id"] for each in found["results"]] == [workflow["id"]]
    for link in workflow["related"].values():
        assert api.http.get(link).status_code == 200, link
    assert api.http.delete(workflow["url"]).status_code == 204
    assert api.http.get(workflow["url"]).status_code == 404


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": "a\nb"}, "name"),
        ({"organization": 999}, "organization"),
        ({"extra_vars": "]"}, "extra_vars"),
        ({"limit": "@x"}, "limit"),
        ({"inventory": 999}, "inventory"),
        ({"allow_simultaneous": "yes"}, "allow_simultaneous"),
        ({"survey_enabled": True}, "survey_enabled"),
    ],
)
def test_a_wrong_field_of_a_workflow_is_named_and_nothing_is_stored(
    api: Api, engine: Engine, ground: dict[str, int], fields: dict[str, Any], wrong: str
) -> None:
    before = rows(engine, "workflow_job_template")
    body = {"name": "x", "organization": ground["organization"]} | fields
    answer = api.http.post(WORKFLOWS, json=body)
    assert (answer.status_code, list(answer.json())) == (400, [wrong]), answer.text
    assert rows(engine, "workflow_job_template") == before


def test_nodes_are_made_linked_changed_and_removed(
    api: Api, ground: dict[str, int], workflow: dict[str, Any]
) -> None:
    build = node(
        api,
        workflow,
        "build",
        unified_job_template=ground["template"],
        extra_data="a: 1",
        job_tags="x, y",
        limit="a",
    )
    assert (build["unified_job_type"], build["extra_data"], build["job_tags"]) == (
        "job",
        {"a": 1},
        "x,y",
    )
    assert build["summary_fields"]["unified_job_template"]["name"] == "deploy"
    assert build["related"]["unified_job_template"].endswith(f"job_templates/{ground['template']}/")
    fetch = node(
        api,
        workflow,
        "fetch",
        unified_job_type="project_update",
        unified_job_template=ground["project"],
    )
    assert lead(api, fetch, build).status_code == 204
    assert lead(api, fetch, build).status_code == 204  # so already: no error
    assert lead(api, fetch, build, "failure").status_code == 204
    shown = api.http.get(fetch["url"]).json()
    assert (shown["success_nodes"], shown["failure_nodes"], shown["always_nodes"]) == (
        [build["id"]],
        [build["id"]],
        [],
    )
    listed = api.http.get(fetch["related"]["success_nodes"]).json()["results"]
    assert [each["identifier"] for each in listed] == ["build"]
    out = {"id": build["id"], "disassociate": True}
    assert api.http.post(fetch["related"]["failure_nodes"], json=out).status_code == 204
    assert api.http.get(fetch["url"]).json()["failure_nodes"] == []

    changed = api.http.patch(
        build["url"],
        json={"identifier": "make", "limit": None, "verbosity": 2, "extra_data": {}},
    )
    assert changed.status_code == 200, changed.text
    assert {n: changed.json()[n] for n in ("identifier", "limit", "verbosity", "job_tags")} == {
        "identifier": "make",
        "limit": None,
        "verbosity": 2,
        "job_tags": "x,y",
    }
    assert changed.json()["extra_data"] == {}
    assert api.http.get(fetch["url"]).json()["success_nodes"] == [build["id"]]
    body = {"workflow_job_template": workflow["id"], "limit": "b"}
    assert api.http.put(build["url"], json=body).json()["limit"] == "b"
    moved = api.http.put(build["url"], json={"workflow_job_template": 999})
    assert (moved.status_code, list(moved.json())) == (400, ["workflow_job_template"])
    assert api.http.delete(build["url"]).status_code == 204
    assert api.http.get(fetch["url"]).json()["success_nodes"] == []


def test_a_node_without_a_template_becomes_an_approval(
    api: Api, ground: dict[str, int], workflow: dict[str, Any]
) -> None:
    # as the clients of the dialect make them: the node first, then what it asks
    ask = node(api, workflow, "ask")
    assert (ask["unified_job_template"], ask["unified_job_type"]) == (None, "job")
    path = ask["related"]["create_approval_template"]
    refused = api.http.post(path, json={"name": "", "timeout": -1})
    assert (refused.status_code, sorted(refused.json())) == (400, ["name", "timeout"])
    answer = api.http.post(path, json={"name": "go?", "timeout": 60})
    assert (answer.status_code, answer.json()["name"]) == (201, "go?")
    shown = api.http.get(ask["url"]).json()
    assert {
        name: shown[name] for name in ("unified_job_type", "approval_name", "approval_timeout")
    } == {"unified_job_type": "workflow_approval", "approval_name": "go?", "approval_timeout": 60}
    back = {"unified_job_type": "job", "unified_job_template": ground["template"]}
    job = api.http.patch(ask["url"], json=back)
    assert (job.status_code, job.json()["approval_name"]) == (200, ""), job.text
    assert (
        api.http.post(f"{NODES}999999/create_approval_template/", json={"name": "x"}).status_code
        == 404
    )


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"identifier": "there"}, "identifier"),
        ({"identifier": " "}, "identifier"),
        ({"identifier": "a\nb"}, "identifier"),
        ({"unified_job_template": 999}, "unified_job_template"),
        ({"unified_job_type": "system_job"}, "unified_job_type"),
        ({"unified_job_type": "workflow_approval"}, "approval_name"),
        ({"extra_data": "]"}, "extra_data"),
        ({"extra_data": {"1x": 1}}, "extra_data"),
        ({"job_tags": "-x"}, "job_tags"),
        ({"verbosity": 9}, "verbosity"),
        ({"inventory": 999}, "inventory"),
        ({"limit": "@x"}, "limit"),
        ({"color": 1}, "color"),
    ],
)
def test_a_wrong_field_of_a_node_is_named_and_nothing_is_stored(
    api: Api, engine: Engine, ground: dict[str, int], fields: dict[str, Any], wrong: str
) -> None:
    existing = api.http.get(WORKFLOWS, params={"name": "wrong nodes"}).json()["results"]
    workflow = existing[0] if existing else made(api, ground, name="wrong nodes")
    if not existing:
        node(api, workflow, "there", unified_job_template=ground["template"])
    before = rows(engine, "workflow_template_node")
    answer = api.http.post(workflow["related"]["workflow_nodes"], json=fields)
    assert (answer.status_code, list(answer.json())) == (400, [wrong]), answer.text
    there = next(row for row in before if row.workflow_job_template_id == workflow["id"])
    if fields != {"identifier": "there"}:
        changed = api.http.patch(f"{NODES}{there.id}/", json=fields)
        assert (changed.status_code, list(changed.json())) == (400, [wrong]), changed.text
    assert rows(engine, "workflow_template_node") == before


def test_edges_that_cannot_run_are_refused_with_the_path_taken(
    api: Api, engine: Engine, ground: dict[str, int], workflow: dict[str, Any]
) -> None:
    a, b, c = (node(api, workflow, n, unified_job_template=ground["template"]) for n in "abc")
    assert lead(api, a, b).status_code == lead(api, b, c, "always").status_code == 204
    before = rows(engine, "workflow_template_edge")
    cycle = lead(api, c, a)
    assert (cycle.status_code, cycle.json()) == (400, {"id": ["cycle: a → b → c → a"]})
    itself = lead(api, a, a)
    assert (itself.status_code, list(itself.json())) == (400, ["id"])
    other = node(api, made(api, ground, name="another"), "z")
    strange = lead(api, a, other)
    assert (strange.status_code, "no node" in strange.json()["id"][0]) == (400, True)
    assert lead(api, a, {"id": 999999}).status_code == 400
    assert rows(engine, "workflow_template_edge") == before


def test_a_workflow_is_not_nested_in_itself(api: Api, ground: dict[str, int]) -> None:
    outer, inner = (made(api, ground, name=name) for name in ("outer", "inner"))
    nest = {"unified_job_type": "workflow_job"}
    node(api, outer, "n", unified_job_template=inner["id"], **nest)
    body = {**nest, "unified_job_template": outer["id"]}
    answer = api.http.post(inner["related"]["workflow_nodes"], json=body)
    assert (answer.status_code, answer.json()) == (
        400,
        {"unified_job_template": ["the workflow would be nested in itself: inner → outer → inner"]},
    )
    assert api.http.get(inner["related"]["workflow_nodes"]).json()["count"] == 0


def test_a_whole_graph_is_written_at_once(
    api: Api, engine: Engine, ground: dict[str, int], workflow: dict[str, Any]
) -> None:
    kept = node(api, workflow, "build", unified_job_template=ground["template"])
    gone = node(api, workflow, "old")
    graph = {
        "nodes": [
            {"identifier": "build", "unified_job_template": ground["template"], "limit": "b"},
            {
                "identifier": "ask",
                "unified_job_type": "workflow_approval",
                "approval_name": "go?",
                "all_parents_must_converge": True,
            },
        ],
        "edges": [{"parent": "build", "child": "ask", "kind": "success"}],
    }
    answer = api.http.put(workflow["related"]["graph"], json=graph)
    assert answer.status_code == 200, answer.text
    assert api.http.get(workflow["related"]["graph"]).json() == answer.json()
    nodes = {each["identifier"]: each for each in answer.json()["nodes"]}
    assert (nodes["build"]["id"], nodes["build"]["limit"]) == (kept["id"], "b")
    assert nodes["build"]["success_nodes"] == [nodes["ask"]["id"]]
    assert answer.json()["edges"] == graph["edges"]
    assert api.http.get(gone["url"]).status_code == 404

    before = rows(engine, "workflow_template_edge"), rows(engine, "workflow_template_node")
    wrong = {
        "nodes": [{"identifier": "a"}, {"identifier": "b", "unified_job_type": "x"}],
        "edges": [{"parent": "a", "child": "b", "kind": "success"}],
    }
    refused = api.http.put(workflow["related"]["graph"], json=wrong)
    assert (refused.status_code, list(refused.json())) == (400, ["nodes"])
    wrong["nodes"] = [{"identifier": n, "unified_job_template": ground["template"]} for n in "ab"]
    wrong["edges"] += [{"parent": "b", "child": "a", "kind": "always"}]
    refused = api.http.put(workflow["related"]["graph"], json=wrong)
    assert refused.json() == {"edges": ["cycle: a → b → a"]}
    wrong["edges"] = [{"parent": "a", "child": "nobody", "kind": "success"}]
    refused = api.http.put(workflow["related"]["graph"], json=wrong)
    assert (refused.status_code, list(refused.json())) == (400, ["edges"])
    assert (
        rows(engine, "workflow_template_edge"),
        rows(engine, "workflow_template_node"),
    ) == before
