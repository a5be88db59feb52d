"""Project updates on a real node: git, ansible-galaxy, and what becomes a bundle."""

from __future__ import annotations

import socket
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import select

from dispatcher.actions.cancel import cancel_job
from dispatcher.actions.launch_template import launch_job_template
from dispatcher.actions.launch_update import launch_project_update
from dispatcher.db import tables as t
from dispatcher.secrets import Cipher
from examples.host_install.ssh_hosts import SshHost
from tests.git_repositories import GitRepository
from tests.nodes import HELLO, wait_final
from tests.templates import make_inventory, make_project, make_template
from tests.updates import Updates
from tests.waiting import wait_until
from workers import leftovers
from workers.handover import hand_over, line


def test_a_project_is_fetched_and_becomes_a_bundle(updates: Updates, tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "r", {"site.yml": HELLO, "tasks/x.yml": "[]"})
    first = repository.git("rev-parse", "HEAD")
    repository.git("tag", "v1")
    second = repository.commit({"new.yml": "[]"})
    repository.git("checkout", "--quiet", "-b", "feature/x", first)
    third = repository.commit({"feature.yml": "[]"})
    repository.git("checkout", "--quiet", "main")
    project = updates.project(repository.url)
    expected = {"": second, "v1": first, "feature/x": third, first[:10]: first, third: third}
    digests = {}
    for branch, revision in expected.items():
        row = updates.fetch(project, branch)
        assert (row.status, row.explanation) == ("successful", "")
        found = updates.fetched(row.id)
        assert found.revision == revision
        digests[branch] = found.bundle_digest
    assert digests["v1"] == digests[first[:10]], "the same content is the same bundle"
    names = updates.files(digests["feature/x"], tmp_path / "out")
    assert names == {"site.yml", "tasks/x.yml", "feature.yml"}
    with updates.engine.connect() as connection:
        events = connection.execute(
            select(t.job_event.c.event, t.job_event.c.stdout).where(t.job_event.c.job_id == row.id)
        ).all()
    assert {event for event, _ in events} == {"verbose"}
    assert any(third in words for _, words in events)
    run = updates.node.data_dir / "runs" / str(UUID(int=row.id))
    assert not (run / "update").exists()


@pytest.mark.parametrize(
    ("url", "branch", "named"),
    [
        ("file:///nowhere/at/all.git", "", "file:///nowhere/at/all.git"),
        ("https://127.0.0.1:9/x.git", "", "https://127.0.0.1:9/x.git"),
        ("ssh://git@127.0.0.1:9/x.git", "", "ssh://git@127.0.0.1:9/x.git"),
        (None, "no-such-branch", "no-such-branch"),
        ("ext::sh -c 'touch pwned'", "", "protocol"),
    ],
)
def test_an_update_that_cannot_fetch_fails_and_names_what_it_was_after(
    updates: Updates, tmp_path: Path, url: str | None, branch: str, named: str
) -> None:
    url = url or GitRepository(tmp_path / "r", {"a": ""}).url
    row = updates.fetch(updates.project(url), branch)
    assert (row.status, row.outcome) == ("error", "project")
    assert named in row.explanation or "user@host:path" in row.explanation
    assert named in updates.output(row.id) or "user@host:path" in updates.output(row.id)


def test_a_project_is_fetched_over_ssh_with_the_nodes_key(
    updates: Updates, tmp_path: Path, ssh_host: SshHost
) -> None:
    repository = GitRepository(tmp_path / "r", {"site.yml": HELLO})
    place = f"{ssh_host.user}@{ssh_host.address}:{ssh_host.port}"
    row = updates.fetch(updates.project(f"ssh://{place}{repository.path}"))
    assert row.status == "successful", row.explanation
    assert updates.fetched(row.id).revision == repository.git("rev-parse", "HEAD")


def test_a_submodule_of_a_remote_project_cannot_be_a_place_on_the_node(
    updates: Updates, tmp_path: Path, ssh_host: SshHost
) -> None:
    secret = GitRepository(tmp_path / "secret", {"secret.yml": "[]"})
    outer = GitRepository(tmp_path / "outer", {"site.yml": HELLO})
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", secret.url, "sub")
    outer.commit({})
    place = f"{ssh_host.user}@{ssh_host.address}:{ssh_host.port}"
    row = updates.fetch(updates.project(f"ssh://{place}{outer.path}"))
    assert (row.status, row.outcome) == ("error", "project")
    assert "submodule" in row.explanation


def test_hooks_of_the_node_are_not_run_and_submodules_are_fetched(
    updates: Updates, tmp_path: Path
) -> None:
    inner = GitRepository(tmp_path / "inner", {"inner.yml": "[]"})
    outer = GitRepository(tmp_path / "outer", {"site.yml": HELLO})
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.url, "sub")
    outer.commit({})
    project = updates.project(outer.url)
    row = updates.fetch(project)
    assert row.status == "successful", row.explanation
    (clone,) = (updates.node.data_dir / "projects").glob(f"{project}-*.git")
    hook = clone / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    outer.commit({"x.yml": "[]"})
    row = updates.fetch(project)
    assert row.status == "successful", row.explanation
    assert not (tmp_path / "hooked").exists()
    names = updates.files(updates.fetched(row.id).bundle_digest, tmp_path / "out")
    assert names == {"site.yml", "x.yml", "sub/inner.yml", ".gitmodules"}


def test_requirements_are_installed_into_the_bundle_and_found_by_playbooks(
    updates: Updates, tmp_path: Path
) -> None:
    role = GitRepository(
        tmp_path / "greeter",
        {
            "tasks/main.yml": "- debug: {msg: greetings from the role}\n",
            "meta/main.yml": "galaxy_info: {author: t, description: t, license: MIT,"
            " min_ansible_version: '2.9', role_name: greeter, namespace: t}\n",
        },
    )
    play = "- hosts: all\n  gather_facts: false\n  roles: [greeter]\n"
    repository = GitRepository(
        tmp_path / "r",
        {
            "deep/site.yml": play,
            "roles/requirements.yml": f"- {{src: '{role.url}', scm: git, name: greeter}}\n",
        },
    )
    project = updates.project(repository.url)
    row = updates.fetch(project)
    assert row.status == "successful", row.explanation
    cipher = Cipher(updates.node.data_dir / "cluster.key")
    with updates.engine.begin() as connection:
        inventory = make_inventory(
            connection, ["localhost"], variables={"ansible_connection": "local"}
        )
        template = make_template(connection, project, inventory, playbook="deep/site.yml")
        launched = launch_job_template(connection, template, {}, principal="t", cipher=cipher)
    updates.start(launched.job_id)
    job = wait_final(updates.engine, launched.job_id)
    assert job.status == "successful", updates.output(job.id)
    assert "greetings from the role" in updates.output(job.id)
    assert job.bundle_digest == updates.fetched(row.id).bundle_digest
    assert updates.fetched(job.id).revision == updates.fetched(row.id).revision


def test_two_branches_with_their_own_requirements_are_fetched_and_run_at_once(
    updates: Updates, tmp_path: Path
) -> None:
    meta = (
        "galaxy_info: {author: t, description: t, license: MIT,"
        " min_ansible_version: '2.9', role_name: greeter, namespace: t}\n"
    )
    role = GitRepository(tmp_path / "greeter", {"meta/main.yml": meta})
    play = "- hosts: all\n  gather_facts: false\n  roles: [greeter]\n  tasks:\n"
    repository = GitRepository(tmp_path / "r", {"x": ""})
    for branch in ("blue", "green"):
        role.commit({"tasks/main.yml": f"- debug: {{msg: the {branch} role}}\n"})
        role.git("tag", branch)
        wanted = f"- {{src: '{role.url}', scm: git, name: greeter, version: {branch}}}\n"
        repository.git("checkout", "--quiet", "-b", branch, "main")
        repository.commit(
            {
                "my play.yaml": f"{play}    - debug: {{msg: the {branch} tree}}\n"
                "    - command: touch left_here creates=left_here\n"
                "      args: {chdir: '{{ playbook_dir }}'}\n",
                "roles/requirements.yml": wanted,
            }
        )
    project = updates.project(repository.url)
    cipher = Cipher(updates.node.data_dir / "cluster.key")
    with updates.engine.begin() as connection:
        inventory = make_inventory(
            connection, ["localhost"], variables={"ansible_connection": "local"}
        )
        template = make_template(
            connection,
            project,
            inventory,
            playbook="my play.yaml",
            ask_scm_branch_on_launch=True,
            allow_simultaneous=True,
        )
        fetching = {
            branch: launch_project_update(connection, project, branch=branch).job_id
            for branch in ("blue", "green")
        }
    for job_id in fetching.values():
        updates.start(job_id)
    for job_id in fetching.values():
        assert wait_final(updates.engine, job_id).status == "successful"
    with updates.engine.begin() as connection:
        jobs = {
            branch: launch_job_template(
                connection, template, {"scm_branch": branch}, principal="t", cipher=cipher
            ).job_id
            for branch in ("blue", "green")
        }
    for job_id in jobs.values():
        updates.start(job_id)
    for branch, job_id in jobs.items():
        row = wait_final(updates.engine, job_id)
        printed = updates.output(job_id)
        assert row.status == "successful", (row.explanation, printed)
        said = {
            word
            for word in ("blue role", "green role", "blue tree", "green tree")
            if word in printed
        }
        assert said == {f"{branch} role", f"{branch} tree"}
        assert "changed=1" in printed, "its tree is its own: nobody else has left anything there"


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"requirements.yml": "roles: [{src: 'file:///nowhere.git', scm: git}]\n"}, "requirements"),
        ({"collections/requirements.yml": "a: [\n"}, "collections/requirements.yml, line"),
    ],
)
def test_requirements_that_cannot_be_installed_fail_the_update_by_name(
    updates: Updates, tmp_path: Path, files: dict[str, str], named: str
) -> None:
    row = updates.fetch(updates.project(GitRepository(tmp_path / "r", files).url))
    assert (row.status, row.outcome) == ("error", "project")
    assert named in row.explanation


def test_a_local_project_is_packed_where_it_is(updates: Updates, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "site.yml").write_text(HELLO)
    with updates.engine.begin() as connection:
        project = make_project(
            connection, scm_type="local", scm_url="", local_path=str(tmp_path / "p")
        )
        gone = make_project(connection, scm_type="local", scm_url="", local_path="/no/such/place")
    row = updates.fetch(project)
    assert row.status == "successful", row.explanation
    row = updates.fetch(gone)
    assert (row.outcome, "/no/such/place" in row.explanation) == ("project", True)


def test_a_hanging_update_is_stopped_by_cancel_and_by_its_time_out(updates: Updates) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x.git"
        with updates.engine.begin() as connection:
            project = make_project(connection, scm_url=url, timeout=2)
            patient = make_project(connection, scm_url=url, timeout=0)
            canceled = launch_project_update(connection, patient).job_id
        row = updates.fetch(project)
        assert (row.status, row.outcome) == ("failed", "timeout")
        dispatch_id = updates.start(canceled)
        wait_until(lambda: "looking at" in updates.output(canceled), what="the update runs")
        with updates.engine.begin() as connection:
            cancel_job(connection, canceled)
        assert hand_over(updates.node.data_dir, line(cancel=[(canceled, dispatch_id)]))
        assert wait_final(updates.engine, canceled).status == "canceled"
        assert leftovers.find(str(dispatch_id)) == []
