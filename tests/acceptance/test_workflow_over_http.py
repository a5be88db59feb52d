"""A workflow with an approval, made, launched, approved and followed over HTTP on the whole stack."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.acceptance.conftest import site
from tests.api_server import client as http_client
from tests.git_repositories import GitRepository
from tests.stack import FINAL, RunningStack
from tests.waiting import wait_until


def test_a_workflow_waits_for_its_approval_and_hands_on_what_was_found(
    stack: RunningStack, tmp_path: Path
) -> None:
    repository = GitRepository(
        tmp_path / "r",
        {
            "find.yml": site("- ansible.builtin.set_stats: {data: {found: 'a needle'}}"),
            "tell.yml": site("- ansible.builtin.debug: {msg: 'there was {{ found }}'}"),
        },
    )
    with http_client(stack.state.api_url, stack.state.token()) as http:

        def post(path: str, **body: Any) -> dict[str, Any]:
            answer = http.post(path, json=body)
            assert answer.status_code in (201, 202, 204), (path, answer.text)
            return answer.json() if answer.content else {}

        def follow(url: str) -> dict[str, Any]:
            def look() -> dict[str, Any] | None:
                found: dict[str, Any] = http.get(url).json()
                return found if found["status"] in FINAL else None

            return wait_until(look, timeout=120, what=f"{url} is final")

        organization = http.get("/api/v2/organizations/?name=Default").json()["results"][0]["id"]
        ours = {"organization": organization, "name": "over http"}
        project = post("/api/v2/projects/", **ours, scm_type="git", scm_url=repository.url)
        inventory = post("/api/v2/inventories/", **ours)
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        post(f"{inventory['url']}hosts/", name="here", variables=local)
        templates = {
            name: post(
                "/api/v2/job_templates/",
                name=name,
                playbook=f"{name}.yml",
                project=project["id"],
                inventory=inventory["id"],
            )["id"]
            for name in ("find", "tell")
        }
        workflow = post("/api/v2/workflow_job_templates/", **ours)
        nodes = {
            name: post(
                workflow["related"]["workflow_nodes"],
                identifier=name,
                unified_job_template=template,
            )
            for name, template in templates.items()
        }
        nodes["ask"] = post(workflow["related"]["workflow_nodes"], identifier="ask")
        post(nodes["ask"]["related"]["create_approval_template"], name="go on?", timeout=300)
        post(nodes["find"]["related"]["success_nodes"], id=nodes["ask"]["id"])
        post(nodes["ask"]["related"]["success_nodes"], id=nodes["tell"]["id"])

        run = post(workflow["related"]["launch"])
        steps = run["related"]["workflow_nodes"]

        def asked() -> dict[str, Any] | None:
            found = http.get(steps, params={"job__name": "go on?"}).json()
            assert http.get(run["url"]).json()["status"] not in FINAL, found
            return found["results"][0] if found["count"] else None

        approval = wait_until(asked, timeout=120, what="the approval is asked for")
        explained = http.get(f"/api/v2/jobs/{approval['job']}/explain/").json()
        assert [blocker["code"] for blocker in explained["blockers"]] == ["approval"]
        post(f"{approval['related']['job']}approve/")
        assert follow(run["url"])["status"] == "successful"

        after = {node["identifier"]: node for node in http.get(steps).json()["results"]}
        told = http.get(after["tell"]["related"]["job"]).json()
        assert told["status"] == "successful", told["job_explanation"]
        assert told["related"]["source_workflow_job"] == run["url"]
        assert told["scm_revision"] == repository.git("rev-parse", "HEAD").strip()
        output = http.get(told["related"]["stdout"], params={"format": "txt"}).text
        assert "there was a needle" in output
        again = post(run["related"]["relaunch"])
        assert http.post(again["related"]["cancel"]).status_code == 202
        assert follow(again["url"])["status"] == "canceled"
