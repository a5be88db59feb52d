"""``become`` with a real sudo that asks for a password, of an account of the test's own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dispatcher.db.credential_rows import note_credentials
from dispatcher.db.engine import make_engine
from dispatcher.embedded.valkey import EmbeddedValkey
from examples.host_install.ssh_hosts import SshHost, running_hosts
from tests.databases import Databases
from tests.nodes import (
    NodeUnderTest,
    agent_alone,
    output,
    saved_credential,
    wait_final,
    waiting_job,
)

PASSWORD = "correct-horse-4711"
PLAY = f"""
- hosts: all
  gather_facts: false
  become: true
  tasks:
    - ansible.builtin.raw: echo I am $(id -un) and asked with {PASSWORD}
"""


@dataclass(frozen=True)
class Account:
    """Somebody who may become root with a password; ``sudo`` is what runs sudo as this account."""

    name: str
    sudo: Path


@pytest.fixture(scope="module")
def account(session_dir: Path) -> Iterator[Account]:
    assert os.geteuid() == 0, "accounts are made by root: run these tests as root, in a container"
    name = f"dsp{os.getpid()}"
    rule = Path(f"/etc/sudoers.d/{name}")
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", name], check=True)
    try:
        subprocess.run(["chpasswd"], input=f"{name}:{PASSWORD}", text=True, check=True)
        rule.write_text(f"{name} ALL=(root) ALL\n")
        rule.chmod(0o440)
        sudo = session_dir / "sudo-as"
        sudo.write_text(
            f'#!/bin/sh\nexec setpriv --reuid={name} --regid={name} --clear-groups sudo "$@"\n'
        )
        sudo.chmod(0o755)
        yield Account(name, sudo)
    finally:
        rule.unlink(missing_ok=True)
        subprocess.run(["userdel", name], check=True)


@pytest.fixture(scope="module")
def host(session_dir: Path) -> Iterator[SshHost]:
    directory = session_dir / "sudo-host"
    directory.mkdir()
    with running_hosts(directory, 1) as (host,):
        yield host


@pytest.fixture(scope="module")
def node(
    databases: Databases, migrated_template: str, valkey: EmbeddedValkey, session_dir: Path
) -> Iterator[NodeUnderTest]:
    yield from agent_alone("node_sudo", databases, migrated_template, valkey, session_dir)


def outcome_of(
    node: NodeUnderTest, account: Account, host: SshHost, password: str
) -> tuple[str, str]:
    """Status and output of a run with this password for sudo."""
    engine = make_engine(node.settings, application_name="test", pool_size=5)
    inputs = {
        "username": host.user,
        "ssh_key_data": Path(host.key_file).read_text(),
        "become_method": "sudo",
        "become_password": password,
    }
    node_id = node.wait_registered(engine)
    credential = saved_credential(node, engine, "ssh", **inputs)
    with engine.begin() as connection:
        inventory = f"{host.inventory_line()} ansible_become_exe={account.sudo}\n"
        job, dispatch = waiting_job(connection, node_id, PLAY, inputs={"inventory": inventory})
        note_credentials(connection, [(job, credential, "sudo")])
    node.hand_over((job, dispatch))
    row = wait_final(engine, job)
    said = output(engine, job)
    engine.dispose()
    return row.status, said


def test_sudo_gets_the_password_that_it_asks_for_and_nobody_else_does(
    node: NodeUnderTest, account: Account, host: SshHost
) -> None:
    status, said = outcome_of(node, account, host, PASSWORD)
    assert status == "successful", said
    assert "I am root and asked with $encrypted$" in said
    assert PASSWORD not in said + node.log()
    left = [path for path in node.data_dir.rglob("*") if path.is_file() and _holds(path)]
    # the content cache has the playbook itself, which says the word
    assert [path for path in left if "cache" not in path.parts] == []


def _holds(path: Path) -> bool:
    return PASSWORD.encode() in path.read_bytes()


def test_a_wrong_password_fails_the_host_and_says_so(
    node: NodeUnderTest, account: Account, host: SshHost
) -> None:
    status, said = outcome_of(node, account, host, "wrong")
    assert status == "failed"
    assert "password" in said.lower()
