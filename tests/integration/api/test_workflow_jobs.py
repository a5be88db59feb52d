"""``workflow_jobs/``, their nodes and approvals, with managers that run in the test."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, text

from dispatcher.db.engine import transaction
from schedulers.passes.manager_pass import Runner
from tests.api_server import Api
from tests.integration.api.conftest import woken
from tests.workflows import asks, make_template, moves, nests, settle

WORKFLOWS = "/api/v2/workflow_job_templates/"


def template(engine: Engine, nodes: list[Any], *edges: str, **columns: Any) -> int:
    with transaction(engine) as connection:
        return make_template(connection, "deploy", nodes, moves(*edges), **columns)


def launch(api: Api, template_id: int, body: Any = None, **more: Any) -> Any:
    return api.http.post(f"{WORKFLOWS}{template_id}/launch/", json=body or {}, **more)


def nodes(api: Api, run: dict[str, Any], query: str = "") -> dict[str, dict[str, Any]]:
    found = api.http.get(f"{run['related']['workflow_nodes']}{query}").json()["results"]
    return {node["identifier"]: node for node in found}


def decide(api: Api, node: dict[str, Any], word: str = "approve") -> Any:
    return api.http.post(f"{node['related']['job']}{word}/")


def test_a_workflow_with_approvals_is_launched_followed_and_decided(
    api: Api, engine: Engine, running: Runner, broker_url: str
) -> None:
    template_id = template(engine, [asks("a", timeout=60), asks("b"), asks("c")], "a>b", "a!c")
    answer = launch(api, template_id)
    assert answer.status_code == 201, answer.text
    run = answer.json()
    assert answer.headers["Location"] == run["url"] == f"/api/v2/workflow_jobs/{run['id']}/"
    assert (run["workflow_job"], run["ignored_fields"], run["status"]) == (run["id"], {}, "pending")
    settle(running)
    step = nodes(api, run)["a"]
    assert step["summary_fields"]["job"]["status"] == "pending"
    # what clients of the dialect wait for
    assert nodes(api, run, "?job__name=a%3F").keys() == {"a"}
    approval = api.http.get(step["related"]["job"]).json()
    assert (approval["type"], approval["can_approve_or_deny"]) == ("workflow_approval", True)
    assert approval["approval_expiration"] is not None
    assert approval["related"]["source_workflow_job"] == run["url"]
    pending = api.http.get("/api/v2/workflow_approvals/?status=pending").json()
    assert [each["id"] for each in pending["results"]] == [approval["id"]]
    woken(broker_url)
    assert decide(api, step).status_code == 204
    assert "workflow" in woken(broker_url)
    again = decide(api, step, "deny")
    assert (again.status_code, again.json()["detail"]) == (
        400,
        ["This approval was approved by tests already."],
    )
    settle(running)
    after = nodes(api, run)
    assert after["c"]["do_not_run"] is True
    assert after["a"]["success_nodes"] == [after["b"]["id"]]
    assert decide(api, after["b"], "deny").status_code == 204
    settle(running)
    ended = api.http.get(run["url"]).json()
    assert (ended["status"], ended["failed"], ended["outcome"]) == (
        "failed",
        True,
        "workflow_failed",
    )
    assert ended["finished"] is not None
    decided = api.http.get(approval["url"]).json()
    assert (decided["status"], decided["approved_or_denied_by"]) == ("successful", "tests")
    assert decided["can_approve_or_deny"] is False
    one = api.http.get(after["a"]["url"])
    assert one.json() == after["a"]


def test_prompts_of_a_workflow_are_taken_where_it_asks_and_named_where_not(
    api: Api, engine: Engine
) -> None:
    template_id = template(
        engine, [asks("a")], ask_variables_on_launch=True, extra_vars={"a": 1, "b": 1}
    )
    answer = launch(api, template_id, {"extra_vars": '{"b": 2}', "limit": "x", "job_tags": "t"})
    assert answer.status_code == 201, answer.text
    assert answer.json()["ignored_fields"] == {"limit": "x", "job_tags": "t"}
    assert answer.json()["extra_vars"] == '{"a": 1, "b": 2}'
    page = api.http.get(f"{WORKFLOWS}{template_id}/launch/").json()
    assert (page["ask_variables_on_launch"], page["ask_limit_on_launch"]) == (True, False)
    assert page["defaults"]["extra_vars"] == '{"a": 1, "b": 1}'


def test_wrong_prompts_of_a_workflow_are_named_and_nothing_is_launched(
    api: Api, engine: Engine
) -> None:
    asking = {f"ask_{name}_on_launch": True for name in ("variables", "limit", "inventory")}
    template_id = template(engine, [asks("a")], **asking)
    for body, wrong in [
        ({"extra_vars": "["}, "extra_vars"),
        ({"extra_vars": {"1x": 1}}, "extra_vars"),
        ({"limit": "@x"}, "limit"),
        ({"inventory": 999}, "inventory"),
        ({"labels": [1]}, "labels"),
        ({"color": 1}, "color"),
    ]:
        answer = launch(api, template_id, body)
        assert (answer.status_code, list(answer.json())) == (400, [wrong]), answer.text
    assert launch(api, 999).status_code == 404
    assert api.http.get("/api/v2/workflow_jobs/").json()["count"] == 0


def test_the_same_key_is_the_same_run(api: Api, engine: Engine) -> None:
    template_id = template(engine, [asks("a")])
    key = {"Idempotency-Key": "k"}
    first, again = (launch(api, template_id, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]


def test_a_cancel_of_a_run_cancels_what_it_has_spawned(
    api: Api, engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        inner = make_template(connection, "inner", [asks("i")])
    run = launch(api, template(engine, [nests("n", inner), asks("b")], "n>b")).json()
    settle(running)
    assert api.http.get(run["related"]["cancel"]).json() == {"can_cancel": True}
    nested = api.http.get(nodes(api, run)["n"]["related"]["job"]).json()
    assert (nested["type"], nested["status"]) == ("workflow_job", "running")
    assert api.http.post(run["related"]["cancel"]).status_code == 202
    settle(running)
    assert api.http.get(run["url"]).json()["status"] == "canceled"
    assert api.http.get(nested["url"]).json()["status"] == "canceled"
    assert api.http.get(run["related"]["cancel"]).json() == {"can_cancel": False}
    assert api.http.post(run["related"]["cancel"]).status_code == 405


def test_a_run_is_launched_again_whole_or_from_what_failed(
    api: Api, engine: Engine, running: Runner
) -> None:
    run = launch(api, template(engine, [asks("a"), asks("b")], "a>b")).json()
    settle(running)
    early = api.http.post(run["related"]["relaunch"])
    assert (early.status_code, early.json()["code"]) == (409, "not_final")
    decide(api, nodes(api, run)["a"])
    settle(running)
    decide(api, nodes(api, run)["b"], "deny")
    settle(running)
    assert api.http.get(run["related"]["relaunch"]).json() == {
        "can_relaunch": True,
        "can_relaunch_from_failed": True,
    }
    answer = api.http.post(run["related"]["relaunch"], json={"from_failed": True})
    assert (answer.status_code, answer.json()["launch_type"]) == (201, "relaunch"), answer.text
    kept = nodes(api, answer.json())["a"]
    assert kept["job"] == nodes(api, run)["a"]["job"]
    whole = api.http.post(run["related"]["relaunch"])
    assert (whole.status_code, nodes(api, whole.json())["a"]["job"]) == (201, None)
    assert api.http.post(run["related"]["relaunch"], json={"hosts": "all"}).status_code == 400


def test_a_step_that_could_not_be_started_says_why(
    api: Api, engine: Engine, running: Runner
) -> None:
    with transaction(engine) as connection:
        inner = make_template(connection, "inner", [])
    run = launch(api, template(engine, [nests("n", inner)])).json()
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM workflow_job_template WHERE name = 'inner'"))
    settle(running)
    step = nodes(api, run)["n"]
    assert (step["job"], "deleted" in step["start_failure"]) == (None, True)
    assert "unified_job_template" not in step["related"]
    assert api.http.get(run["url"]).json()["status"] == "failed"


def test_a_workflow_with_unfinished_runs_is_not_deleted(api: Api, engine: Engine) -> None:
    template_id = template(engine, [asks("a")])
    run = launch(api, template_id).json()
    refused = api.http.delete(f"{WORKFLOWS}{template_id}/")
    assert (refused.status_code, refused.json()["active_jobs"]) == (409, [run["id"]])
    api.http.post(run["related"]["cancel"])
    assert api.http.delete(f"{WORKFLOWS}{template_id}/").status_code == 204
    assert api.http.get(run["url"]).json()["workflow_job_template"] is None


def test_other_kinds_of_jobs_are_no_workflow_jobs(
    api: Api, engine: Engine, running: Runner
) -> None:
    run = launch(api, template(engine, [asks("a")])).json()
    settle(running)
    approval = nodes(api, run)["a"]["job"]
    for path in ("", "cancel/", "relaunch/", "workflow_nodes/"):
        assert api.http.get(f"/api/v2/workflow_jobs/{approval}/{path}").status_code == 404
    assert api.http.post(f"/api/v2/workflow_jobs/{approval}/cancel/").status_code == 404
    assert api.http.get(f"/api/v2/workflow_approvals/{run['id']}/").status_code == 404
    assert api.http.post(f"/api/v2/workflow_approvals/{run['id']}/approve/").status_code == 404
    for link in api.http.get(run["url"]).json()["related"].values():
        assert api.http.get(link).status_code == 200, link
