"""Over SSH: host keys are never asked about, and connections do not outlive their run."""

from __future__ import annotations

from pathlib import Path

import asyncssh

from examples.host_install.ssh_hosts import SshHost
from tests.runs import Run, Runs

pytest_plugins = ("tests.fixtures.ssh_hosts",)


def test_host_keys_follow_the_policy_and_masters_are_closed(
    runs: Runs, ssh_hosts: list[SshHost], tmp_path: Path
) -> None:
    host = ssh_hosts[0]
    known = tmp_path / "known hosts"

    def run(policy: str, tasks: str = "- raw: 'true'\n") -> Run:
        return runs.start(
            tasks,
            inventory=host.inventory_line() + "\n",
            known_hosts=str(known),
            host_key_policy=policy,
        )

    unknown = run("strict")
    assert unknown.decided().outcome == "unreachable"
    assert not known.exists()

    new = run("accept-new", "- ping:\n- raw: 'true'\n")
    assert new.decided().outcome == "successful", new.stdout()
    assert new.processes() == []
    assert new.wait().evidence.killed == 0
    assert not new.run_dir.control.exists()

    assert run("strict").decided().outcome == "successful"

    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    known.write_text(f"[{host.address}]:{host.port} {other}")
    changed = run("accept-new")
    assert changed.decided().outcome == "unreachable"
    assert "Host key verification failed" in changed.stdout()
