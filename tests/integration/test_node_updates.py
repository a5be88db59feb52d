"""Project and inventory updates on a real node: git, ansible-galaxy, ansible-inventory."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine, delete, select, text, update

from dispatcher.actions.cancel import cancel_job
from dispatcher.actions.launch_template import launch_job_template
from dispatcher.actions.launch_update import launch_inventory_update, launch_project_update
from dispatcher.actions.store_content import read_bundle
from dispatcher.db import job_moves
from dispatcher.db import tables as t
from dispatcher.db.engine import make_engine
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.secrets import Cipher
from examples.host_install.ssh_hosts import SshHost, running_hosts
from tests.databases import Databases
from tests.factories import default_group
from tests.git_repositories import GitRepository
from tests.nodes import (
    HELLO,
    NodeUnderTest,
    agent_alone,
    holding,
    output,
    saved_credential,
    wait_final,
)
from tests.templates import make_inventory, make_project, make_source, make_template, updated
from tests.waiting import wait_until
from workers import leftovers
from workers.handover import hand_over, line
from workers.project_copy import unpack


@pytest.fixture(scope="module")
def ssh_host(session_dir: Path) -> Iterator[SshHost]:
    """A real SSH server; what it executes is executed on this machine."""
    directory = session_dir / "ssh"
    directory.mkdir()
    with running_hosts(directory, 1) as hosts:
        yield hosts[0]


@pytest.fixture(scope="module")
def node(
    databases: Databases,
    migrated_template: str,
    valkey: EmbeddedValkey,
    session_dir: Path,
    ssh_host: SshHost,
) -> Iterator[NodeUnderTest]:
    yield from agent_alone(
        "node_updates",
        databases,
        migrated_template,
        valkey,
        session_dir,
        scm_key_file=ssh_host.key_file,
    )


@pytest.fixture
def engine(node: NodeUnderTest) -> Iterator[Engine]:
    made = make_engine(node.settings, application_name="test", pool_size=5)
    yield made
    made.dispose()


def _start(node: NodeUnderTest, engine: Engine, job_id: int) -> UUID:
    """Put a pending job on the node, as the TaskManager does."""
    node_id = node.wait_registered(engine)
    dispatch_id = UUID(int=job_id)
    with engine.begin() as connection:
        row = job_moves.StartRow(job_id, dispatch_id, node_id, default_group(connection))
        assert job_moves.start(connection, [row])
    node.hand_over((job_id, dispatch_id))
    return dispatch_id


def _update(node: NodeUnderTest, engine: Engine, project: int, branch: str = "") -> Any:
    """Run an update of a project to its end: its row."""
    with engine.begin() as connection:
        job_id = launch_project_update(connection, project, branch=branch).job_id
    _start(node, engine, job_id)
    return wait_final(engine, job_id)


def _found(engine: Engine, job_id: int) -> Any:
    with engine.connect() as connection:
        return connection.execute(
            select(t.job_project).where(t.job_project.c.job_id == job_id)
        ).one()


def _output(engine: Engine, job_id: int) -> str:
    with engine.connect() as connection:
        return "\n".join(
            connection.scalars(
                select(t.job_event.c.stdout)
                .where(t.job_event.c.job_id == job_id)
                .order_by(t.job_event.c.counter)
            )
        )


def _files(engine: Engine, digest: str, target: Path) -> set[str]:
    with engine.connect() as connection:
        unpack(read_bundle(connection, digest), target, max_bytes=10**8)
    return {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}


def _project(engine: Engine, url: str, **columns: Any) -> int:
    with engine.begin() as connection:
        return make_project(connection, scm_url=url, **columns)


def test_a_project_is_fetched_and_becomes_a_bundle(
    node: NodeUnderTest, engine: Engine, tmp_path: Path
) -> None:
    repository = GitRepository(tmp_path / "r", {"site.yml": HELLO, "tasks/x.yml": "[]"})
    first = repository.git("rev-parse", "HEAD")
    repository.git("tag", "v1")
    second = repository.commit({"new.yml": "[]"})
    repository.git("checkout", "--quiet", "-b", "feature/x", first)
    third = repository.commit({"feature.yml": "[]"})
    repository.git("checkout", "--quiet", "main")
    project = _project(engine, repository.url)
    expected = {"": second, "v1": first, "feature/x": third, first[:10]: first, third: third}
    digests = {}
    for branch, revision in expected.items():
        row = _update(node, engine, project, branch)
        assert (row.status, row.explanation) == ("successful", "")
        found = _found(engine, row.id)
        assert found.revision == revision
        digests[branch] = found.bundle_digest
    assert digests["v1"] == digests[first[:10]], "the same content is the same bundle"
    names = _files(engine, digests["feature/x"], tmp_path / "out")
    assert names == {"site.yml", "tasks/x.yml", "feature.yml"}
    with engine.connect() as connection:
        events = connection.execute(
            select(t.job_event.c.event, t.job_event.c.stdout).where(t.job_event.c.job_id == row.id)
        ).all()
    assert {event for event, _ in events} == {"verbose"}
    assert any(third in words for _, words in events)
    run = node.data_dir / "runs" / str(UUID(int=row.id))
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
    node: NodeUnderTest, engine: Engine, tmp_path: Path, url: str | None, branch: str, named: str
) -> None:
    url = url or GitRepository(tmp_path / "r", {"a": ""}).url
    row = _update(node, engine, _project(engine, url), branch)
    assert (row.status, row.outcome) == ("error", "project")
    assert named in row.explanation or "user@host:path" in row.explanation
    assert named in _output(engine, row.id) or "user@host:path" in _output(engine, row.id)


def test_a_project_is_fetched_over_ssh_with_the_nodes_key(
    node: NodeUnderTest, engine: Engine, tmp_path: Path, ssh_host: SshHost
) -> None:
    repository = GitRepository(tmp_path / "r", {"site.yml": HELLO})
    place = f"{ssh_host.user}@{ssh_host.address}:{ssh_host.port}"
    row = _update(node, engine, _project(engine, f"ssh://{place}{repository.path}"))
    assert row.status == "successful", row.explanation
    assert _found(engine, row.id).revision == repository.git("rev-parse", "HEAD")


def test_a_submodule_of_a_remote_project_cannot_be_a_place_on_the_node(
    node: NodeUnderTest, engine: Engine, tmp_path: Path, ssh_host: SshHost
) -> None:
    secret = GitRepository(tmp_path / "secret", {"secret.yml": "[]"})
    outer = GitRepository(tmp_path / "outer", {"site.yml": HELLO})
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", secret.url, "sub")
    outer.commit({})
    place = f"{ssh_host.user}@{ssh_host.address}:{ssh_host.port}"
    row = _update(node, engine, _project(engine, f"ssh://{place}{outer.path}"))
    assert (row.status, row.outcome) == ("error", "project")
    assert "submodule" in row.explanation


def test_hooks_of_the_node_are_not_run_and_submodules_are_fetched(
    node: NodeUnderTest, engine: Engine, tmp_path: Path
) -> None:
    inner = GitRepository(tmp_path / "inner", {"inner.yml": "[]"})
    outer = GitRepository(tmp_path / "outer", {"site.yml": HELLO})
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.url, "sub")
    outer.commit({})
    project = _project(engine, outer.url)
    row = _update(node, engine, project)
    assert row.status == "successful", row.explanation
    (clone,) = (node.data_dir / "projects").glob(f"{project}-*.git")
    hook = clone / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    outer.commit({"x.yml": "[]"})
    row = _update(node, engine, project)
    assert row.status == "successful", row.explanation
    assert not (tmp_path / "hooked").exists()
    names = _files(engine, _found(engine, row.id).bundle_digest, tmp_path / "out")
    assert names == {"site.yml", "x.yml", "sub/inner.yml", ".gitmodules"}


def test_requirements_are_installed_into_the_bundle_and_found_by_playbooks(
    node: NodeUnderTest, engine: Engine, tmp_path: Path
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
    project = _project(engine, repository.url)
    row = _update(node, engine, project)
    assert row.status == "successful", row.explanation
    cipher = Cipher(node.data_dir / "cluster.key")
    with engine.begin() as connection:
        inventory = make_inventory(
            connection, ["localhost"], variables={"ansible_connection": "local"}
        )
        template = make_template(connection, project, inventory, playbook="deep/site.yml")
        launched = launch_job_template(connection, template, {}, principal="t", cipher=cipher)
    _start(node, engine, launched.job_id)
    job = wait_final(engine, launched.job_id)
    assert job.status == "successful", _output(engine, job.id)
    assert "greetings from the role" in _output(engine, job.id)
    assert job.bundle_digest == _found(engine, row.id).bundle_digest
    assert _found(engine, job.id).revision == _found(engine, row.id).revision


def test_two_branches_with_their_own_requirements_are_fetched_and_run_at_once(
    node: NodeUnderTest, engine: Engine, tmp_path: Path
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
    project = _project(engine, repository.url)
    cipher = Cipher(node.data_dir / "cluster.key")
    with engine.begin() as connection:
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
        updates = {
            branch: launch_project_update(connection, project, branch=branch).job_id
            for branch in ("blue", "green")
        }
    for job_id in updates.values():
        _start(node, engine, job_id)
    for job_id in updates.values():
        assert wait_final(engine, job_id).status == "successful"
    with engine.begin() as connection:
        jobs = {
            branch: launch_job_template(
                connection, template, {"scm_branch": branch}, principal="t", cipher=cipher
            ).job_id
            for branch in ("blue", "green")
        }
    for job_id in jobs.values():
        _start(node, engine, job_id)
    for branch, job_id in jobs.items():
        row = wait_final(engine, job_id)
        printed = _output(engine, job_id)
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
    node: NodeUnderTest, engine: Engine, tmp_path: Path, files: dict[str, str], named: str
) -> None:
    row = _update(node, engine, _project(engine, GitRepository(tmp_path / "r", files).url))
    assert (row.status, row.outcome) == ("error", "project")
    assert named in row.explanation


def test_a_local_project_is_packed_where_it_is(
    node: NodeUnderTest, engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "site.yml").write_text(HELLO)
    with engine.begin() as connection:
        project = make_project(
            connection, scm_type="local", scm_url="", local_path=str(tmp_path / "p")
        )
        gone = make_project(connection, scm_type="local", scm_url="", local_path="/no/such/place")
    row = _update(node, engine, project)
    assert row.status == "successful", row.explanation
    row = _update(node, engine, gone)
    assert (row.outcome, "/no/such/place" in row.explanation) == ("project", True)


def test_a_hanging_update_is_stopped_by_cancel_and_by_its_time_out(
    node: NodeUnderTest, engine: Engine
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x.git"
        with engine.begin() as connection:
            project = make_project(connection, scm_url=url, timeout=2)
            patient = make_project(connection, scm_url=url, timeout=0)
            canceled = launch_project_update(connection, patient).job_id
        row = _update(node, engine, project)
        assert (row.status, row.outcome) == ("failed", "timeout")
        dispatch_id = _start(node, engine, canceled)
        wait_until(lambda: "looking at" in _output(engine, canceled), what="the update runs")
        with engine.begin() as connection:
            cancel_job(connection, canceled)
        assert hand_over(node.data_dir, line(cancel=[(canceled, dispatch_id)]))
        assert wait_final(engine, canceled).status == "canceled"
        assert leftovers.find(str(dispatch_id)) == []


# -- inventories


def _source(engine: Engine, files: dict[str, str], path: str, **columns: Any) -> tuple[int, int]:
    """A source in an updated project: (inventory, source)."""
    with engine.begin() as connection:
        project = make_project(connection)
        updated(connection, project, files=files)
        inventory = make_inventory(connection)
        return inventory, make_source(connection, inventory, project, path=path, **columns)


def _import(node: NodeUnderTest, engine: Engine, source: int) -> Any:
    with engine.begin() as connection:
        job_id = launch_inventory_update(connection, source).job_id
        connection.execute(
            text("UPDATE job SET dependencies_processed = true WHERE id = :id"), {"id": job_id}
        )
    _start(node, engine, job_id)
    return wait_final(engine, job_id)


def _hosts(engine: Engine, inventory: int) -> dict[str, Any]:
    with engine.connect() as connection:
        rows = connection.execute(
            select(t.inventory_host.c.name, t.inventory_host.c.variables).where(
                t.inventory_host.c.inventory_id == inventory
            )
        )
        return {row.name: row.variables for row in rows}


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ({"hosts.ini": "[web]\na x=1\nb\n[web:vars]\ny=2\n"}, "hosts.ini"),
        ({"hosts/one.yml": "web: {hosts: {a: {x: 1}}}", "hosts/two.ini": "[web]\nb\n"}, "hosts"),
        (
            {
                "plugin/x.constructed.yml": "plugin: ansible.builtin.constructed\nstrict: true\n"
                "groups: {web: true}\n",
                "plugin/a.ini": "a x=1\nb\n",
            },
            "plugin",
        ),
    ],
)
def test_a_file_a_directory_or_a_plugin_is_listed_by_ansible_and_imported(
    node: NodeUnderTest, engine: Engine, files: dict[str, str], path: str
) -> None:
    inventory, source = _source(engine, files, path)
    row = _import(node, engine, source)
    assert row.status == "successful", (row.explanation, _output(engine, row.id))
    hosts = _hosts(engine, inventory)
    assert {name: int(found.get("x", 0)) for name, found in hosts.items()} == {"a": 1, "b": 0}
    with engine.connect() as connection:
        groups = set(
            connection.scalars(
                select(t.inventory_group.c.name).where(
                    t.inventory_group.c.inventory_id == inventory
                )
            )
        )
    assert groups == {"web"}


def test_a_broken_inventory_fails_the_update_with_file_and_line(
    node: NodeUnderTest, engine: Engine
) -> None:
    inventory, source = _source(engine, {"hosts.yml": "all:\n  hosts:\n   - {a: [\n"}, "hosts.yml")
    row = _import(node, engine, source)
    assert (row.status, row.outcome) == ("error", "inventory")
    assert row.explanation.startswith("hosts.yml, line 4: ")
    assert _hosts(engine, inventory) == {}
    _, source = _source(engine, {"a": ""}, "nothing.yml")
    row = _import(node, engine, source)
    assert (row.outcome, "nothing.yml" in row.explanation) == ("inventory", True)


def test_a_script_gets_its_sources_credential_and_nothing_of_it_is_kept(
    node: NodeUnderTest, engine: Engine, tmp_path: Path
) -> None:
    script = """#!/bin/sh
echo "asking with $CMDB_TOKEN" >&2
host=$(cat "$CMDB_CONFIG")
case "$CMDB_TOKEN" in open-*-4242) ;; *) exit 1 ;; esac
echo "{\\"web\\": {\\"hosts\\": [\\"$host\\"]}, \\"_meta\\": {\\"hostvars\\": {}}}"
"""
    repository = GitRepository(tmp_path / "r", {"x": ""})
    repository.commit({"cmdb.sh": script}, executable=True)
    project = _project(engine, repository.url)
    assert _update(node, engine, project).status == "successful"
    given = {"variables": {"CMDB_TOKEN": "open-sesame-4242"}, "files": {"CMDB_CONFIG": "from-cmdb"}}
    credential = saved_credential(node, engine, "environment", **given)
    with engine.begin() as connection:
        inventory = make_inventory(connection)
        source = make_source(
            connection, inventory, project, path="cmdb.sh", credential_id=credential
        )
    row = _import(node, engine, source)
    assert row.status == "successful", (row.explanation, _output(engine, row.id))
    assert _hosts(engine, inventory) == {"from-cmdb": {}}
    assert "open-sesame-4242" not in output(engine, row.id)
    assert holding(node.data_dir, "open-sesame-4242") == []
    with engine.begin() as connection:
        connection.execute(update(t.inventory_source).values(credential_id=None))
        connection.execute(delete(t.job_credential))
        connection.execute(delete(t.credential))
    row = _import(node, engine, source)
    assert (row.status, row.outcome) == ("error", "inventory"), "the script says no by itself"
    assert _hosts(engine, inventory) == {"from-cmdb": {}}, "and nothing is imported"


def test_a_script_is_executed_and_one_that_hangs_is_stopped(
    node: NodeUnderTest, engine: Engine, tmp_path: Path
) -> None:
    listing = json.dumps({"web": {"hosts": ["s1"]}, "_meta": {"hostvars": {"s1": {"x": 1}}}})
    repository = GitRepository(tmp_path / "r", {"x": ""})
    repository.commit({"good": f"#!/bin/sh\necho '{listing}'\n"}, executable=True)
    repository.commit({"slow": "#!/bin/sh\nsleep 300\n"}, executable=True)
    project = _project(engine, repository.url)
    assert _update(node, engine, project).status == "successful"
    with engine.begin() as connection:
        inventory = make_inventory(connection)
        good = make_source(connection, inventory, project, path="good")
        slow = make_source(connection, inventory, project, path="slow", timeout=3)
    row = _import(node, engine, good)
    assert row.status == "successful", (row.explanation, _output(engine, row.id))
    assert _hosts(engine, inventory) == {"s1": {"x": 1}}
    row = _import(node, engine, slow)
    assert (row.status, row.outcome) == ("failed", "timeout")
