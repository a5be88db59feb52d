"""Credentials on a real node: what logs in with them, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncssh
import pytest
from sqlalchemy import Engine, delete, select

from dispatcher.actions.launch_update import launch_project_update
from dispatcher.actions.rotate_keys import rotate
from dispatcher.db import job_moves
from dispatcher.db import tables as t
from dispatcher.db.credential_rows import note_credentials
from dispatcher.db.engine import make_engine
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.secrets import Cipher, make_key_file, new_key, read_keys, replace_keys
from examples.host_install.ssh_hosts import SshHost
from tests.databases import Databases
from tests.factories import default_group
from tests.git_repositories import GitRepository
from tests.nodes import (
    HELLO,
    NodeUnderTest,
    agent_alone,
    counters,
    holding,
    job_row,
    output,
    paced,
    saved_credential,
    wait_final,
    waiting_job,
)
from tests.programs import installed
from tests.templates import make_project
from tests.waiting import wait_until

PASSPHRASE = "open-sesame-7731"


@pytest.fixture(scope="module")
def locked_key(ssh_host: SshHost, session_dir: Path) -> str:
    """The key that the host lets in, with a passphrase."""
    path = session_dir / "locked"
    path.write_bytes(Path(ssh_host.key_file).read_bytes())
    path.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", PASSPHRASE, "-f", path], check=True, timeout=30)
    return path.read_text()


@pytest.fixture(scope="module")
def node(
    databases: Databases, migrated_template: str, valkey: EmbeddedValkey, session_dir: Path
) -> Iterator[NodeUnderTest]:
    yield from agent_alone("node_cred", databases, migrated_template, valkey, session_dir)


@pytest.fixture
def engine(node: NodeUnderTest) -> Iterator[Engine]:
    made = make_engine(node.settings, application_name="test", pool_size=5)
    yield made
    made.dispose()


def started(
    node: NodeUnderTest,
    engine: Engine,
    files: dict[str, str] | str,
    credentials: Sequence[int],
    **inputs: Any,
) -> tuple[int, UUID]:
    node_id = node.wait_registered(engine)
    with engine.begin() as connection:
        job_id, dispatch_id = waiting_job(connection, node_id, files, inputs=inputs)
        note_credentials(connection, [(job_id, each, f"name of {each}") for each in credentials])
    node.hand_over((job_id, dispatch_id))
    return job_id, dispatch_id


def remote(host: SshHost, port: int | None = None) -> str:
    """The host without user and key: they come from a credential."""
    return f"far ansible_host={host.address} ansible_port={port or host.port}\n"


RAW = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.raw: echo arrived
"""


def test_a_key_with_a_passphrase_logs_in_and_leaves_nothing(
    node: NodeUnderTest, engine: Engine, ssh_host: SshHost, locked_key: str
) -> None:
    login = saved_credential(
        node,
        engine,
        "ssh",
        username=ssh_host.user,
        ssh_key_data=locked_key,
        ssh_key_unlock=PASSPHRASE,
    )
    job_id, _ = started(node, engine, RAW, [login], inventory=remote(ssh_host))
    row = wait_final(engine, job_id)
    assert row.status == "successful", output(engine, job_id)
    assert "arrived" in output(engine, job_id)
    lines = [line for line in locked_key.splitlines() if "-" not in line]
    bare = Path(ssh_host.key_file).read_text().splitlines()[1:-1]
    assert holding(node.data_dir, PASSPHRASE, *lines, *bare) == []
    assert PASSPHRASE not in node.log()


def test_a_key_whose_passphrase_is_wrong_ends_the_job_and_names_the_credential(
    node: NodeUnderTest, engine: Engine, ssh_host: SshHost, locked_key: str
) -> None:
    login = saved_credential(node, engine, "ssh", ssh_key_data=locked_key, ssh_key_unlock="not it")
    job_id, _ = started(node, engine, RAW, [login], inventory=remote(ssh_host))
    row = wait_final(engine, job_id)
    assert (row.status, row.outcome) == ("error", "credentials")
    assert "credential " in row.explanation
    assert "passphrase" in row.explanation


@contextmanager
def password_host(user: str, password: str) -> Iterator[int]:
    """An SSH server that lets one password in; its port."""
    ready: list[Any] = []
    up = threading.Event()

    class Door(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            return True

        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, given: str) -> bool:
            return (username, given) == (user, password)

    async def answer(process: asyncssh.SSHServerProcess[str]) -> None:
        process.stdout.write("arrived\n")
        process.exit(0)

    async def serve() -> None:
        done = asyncio.Event()
        listener = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=Door,
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            process_factory=answer,
        )
        ready.extend((listener.get_port(), asyncio.get_running_loop(), done))
        up.set()
        await done.wait()
        listener.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert up.wait(20)
    port, loop, done = ready
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(10)


def test_user_and_password_log_in(node: NodeUnderTest, engine: Engine) -> None:
    password = "pass word 'with' \"quotes\" $HOME"
    login = saved_credential(node, engine, "ssh", username="somebody", password=password)
    with password_host("somebody", password) as port:
        hosts = f"far ansible_host=127.0.0.1 ansible_port={port}\n"
        job_id, _ = started(node, engine, RAW, [login], inventory=hosts)
        row = wait_final(engine, job_id)
    assert row.status == "successful", output(engine, job_id)
    assert holding(node.data_dir, password) == []


def test_several_vaults_variables_and_files_reach_the_playbook_and_are_masked(
    node: NodeUnderTest, engine: Engine, tmp_path: Path
) -> None:
    secrets = {word: f"{word}-correct-horse" for word in ("v1", "v2", "token", "config")}
    encrypted = {}
    for name in ("v1", "v2"):
        (tmp_path / name).write_text(secrets[name])
        plain = tmp_path / f"{name}.yml"
        plain.write_text(f"from_{name}: unlocked {name}\n")
        subprocess.run(
            [
                installed("ansible-vault"),
                "encrypt",
                "--vault-id",
                f"{name}@{tmp_path / name}",
                plain,
            ],
            check=True,
            capture_output=True,
            timeout=60,
        )
        encrypted[f"{name}.yml"] = plain.read_text()
    play = """
- hosts: all
  gather_facts: false
  vars_files: [v1.yml, v2.yml]
  tasks:
    - ansible.builtin.debug:
        msg: "{{ from_v1 }}, {{ from_v2 }}, {{ lookup('env', 'TOKEN') }}, {{ lookup('env', 'TOKEN') | length }}"
    - name: "named after {{ lookup('env', 'TOKEN') }}"
      ansible.builtin.command: cat {{ lookup('env', 'CONFIG') }}
"""
    chosen = [
        saved_credential(node, engine, "vault", vault_id="v1", vault_password=secrets["v1"]),
        saved_credential(node, engine, "vault", vault_id="v2", vault_password=secrets["v2"]),
        saved_credential(
            node,
            engine,
            "environment",
            variables={"TOKEN": secrets["token"]},
            files={"CONFIG": secrets["config"]},
        ),
    ]
    job_id, _ = started(node, engine, {"site.yml": play, **encrypted}, chosen)
    row = wait_final(engine, job_id)
    said = output(engine, job_id)
    assert row.status == "successful", said
    assert "unlocked v1, unlocked v2" in said
    assert str(len(secrets["token"])) in said
    assert not any(secret in said for secret in secrets.values())
    assert holding(node.data_dir, *secrets.values()) == []
    assert not any(secret in node.log() for secret in secrets.values())


def test_a_job_whose_credential_is_gone_or_locked_ends_and_names_it(
    node: NodeUnderTest, engine: Engine, tmp_path: Path
) -> None:
    gone = saved_credential(node, engine, "vault", vault_password="x1234")
    make_key_file(tmp_path / "other.key")
    locked = saved_credential(
        node, engine, "vault", Cipher(tmp_path / "other.key"), vault_id="l", vault_password="x1234"
    )
    with engine.begin() as connection:
        connection.execute(delete(t.credential).where(t.credential.c.id == gone))
    for credential, words in ((gone, f"name of {gone}"), (locked, "key file")):
        job_id, _ = started(node, engine, HELLO, [credential])
        row = wait_final(engine, job_id)
        assert (row.status, row.outcome) == ("error", "credentials")
        assert words in row.explanation
        assert "credential '" in row.explanation or 'credential "' in row.explanation


def test_nothing_is_left_when_supervisor_and_agent_are_killed(
    node: NodeUnderTest, engine: Engine
) -> None:
    secret = "battery-staple-9942"
    chosen = [
        saved_credential(
            node, engine, "environment", variables={"TOKEN": secret}, files={"CONFIG": secret}
        ),
        saved_credential(node, engine, "vault", vault_password=secret),
    ]
    job_id, dispatch_id = started(node, engine, paced(node.data_dir / "never"), chosen)
    wait_until(lambda: counters(engine, job_id), what="events while it runs", timeout=60)
    record = node.run_dir(dispatch_id).read_supervisor()
    assert record is not None
    assert node.process is not None
    os.kill(node.process.pid, signal.SIGKILL)
    os.kill(record.pid, signal.SIGKILL)
    node.process.wait()
    assert holding(node.data_dir, secret), "as long as it runs it is there"
    node.start("agent")
    row = wait_final(engine, job_id)
    assert (row.status, row.events_complete) == ("error", True)
    assert holding(node.data_dir, secret) == []
    assert secret not in node.log()


def test_a_node_that_runs_takes_a_new_key_up(node: NodeUnderTest, engine: Engine) -> None:
    secret = "rotated-horse-1188"
    key_file = node.data_dir / "cluster.key"
    old = saved_credential(node, engine, "environment", variables={"OLD_TOKEN": secret})
    replace_keys(key_file, [new_key(), *read_keys(key_file)])
    for _ in rotate(engine, Cipher(key_file)):
        pass
    new = saved_credential(node, engine, "environment", variables={"NEW_TOKEN": secret})
    replace_keys(key_file, read_keys(key_file)[:1])
    play = HELLO.replace(
        "{msg: hello}", "{msg: \"{{ lookup('env', 'OLD_TOKEN') == lookup('env', 'NEW_TOKEN') }}\"}"
    )
    job_id, _ = started(node, engine, play, [old, new])
    assert wait_final(engine, job_id).status == "successful", job_row(engine, job_id).explanation
    assert '"msg": true' in output(engine, job_id)


# -- projects


def updated(node: NodeUnderTest, engine: Engine, **project: Any) -> Any:
    with engine.begin() as connection:
        job_id = launch_project_update(connection, make_project(connection, **project)).job_id
    node_id = node.wait_registered(engine)
    dispatch_id = UUID(int=job_id)
    with engine.begin() as connection:
        row = job_moves.StartRow(job_id, dispatch_id, node_id, default_group(connection))
        assert job_moves.start(connection, [row])
    node.hand_over((job_id, dispatch_id))
    return wait_final(engine, job_id)


def test_a_project_is_fetched_over_ssh_with_its_own_key(
    node: NodeUnderTest, engine: Engine, tmp_path: Path, ssh_host: SshHost, locked_key: str
) -> None:
    repository = GitRepository(tmp_path / "r", {"site.yml": HELLO})
    url = f"ssh://{ssh_host.user}@{ssh_host.address}:{ssh_host.port}{repository.path}"
    assert updated(node, engine, scm_url=url).status == "error", "the node has no key"
    key = saved_credential(node, engine, "scm", ssh_key_data=locked_key, ssh_key_unlock=PASSPHRASE)
    row = updated(node, engine, scm_url=url, credential_id=key)
    assert row.status == "successful", row.explanation
    assert holding(node.data_dir, PASSPHRASE) == []
    wrong = saved_credential(node, engine, "scm", ssh_key_data=locked_key, ssh_key_unlock="not it")
    row = updated(node, engine, scm_url=url, credential_id=wrong)
    assert (row.status, row.outcome) == ("error", "credentials")
    with engine.begin() as connection:
        project = connection.scalar(select(t.job.c.project_id).where(t.job.c.id == row.id))
        connection.execute(
            t.project.update().where(t.project.c.id == project).values(credential_id=None)
        )
        connection.execute(delete(t.credential).where(t.credential.c.id == wrong))


@contextmanager
def http_repository(path: Path, expected: str) -> Iterator[tuple[int, list[str]]]:
    """A dumb git server over HTTP that wants a password; its port, and what it was sent."""
    seen: list[str] = []

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.headers.get("Authorization", "")
            seen.append(sent)
            file = path / self.path.split("?")[0].lstrip("/")
            if sent != expected:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = file.read_bytes() if file.is_file() else None
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port, seen
        server.shutdown()


def test_a_project_is_fetched_over_http_with_user_and_password(
    node: NodeUnderTest, engine: Engine, tmp_path: Path
) -> None:
    repository = GitRepository(tmp_path / "r", {"site.yml": HELLO})
    repository.git("update-server-info")
    password = "git-pass-4411/@:"
    expected = b64encode(f"me:{password}".encode()).decode()
    login = saved_credential(node, engine, "scm", username="me", password=password)
    with http_repository(repository.path / ".git", f"Basic {expected}") as (port, seen):
        url = f"http://127.0.0.1:{port}/"
        assert updated(node, engine, scm_url=url).status == "error"
        assert set(seen) == {""}
        row = updated(node, engine, scm_url=url, credential_id=login)
        assert row.status == "successful", row.explanation
    assert holding(node.data_dir, password, "git-pass-4411") == []
    assert "git-pass-4411" not in output(engine, row.id) + node.log()
