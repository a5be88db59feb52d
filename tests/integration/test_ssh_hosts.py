"""The example's SSH hosts, and its playbook run against them by ansible-playbook itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.host_install import ssh_hosts as example
from examples.host_install.ssh_hosts import SshHost
from tests.programs import installed
from tests.waiting import wait_until

pytest_plugins = ("tests.fixtures.ssh_hosts",)

EXAMPLE = Path(example.__file__).parent


def ssh(host: SshHost, command: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-q"]
    target = [f"{host.user}@{host.address}", "-p", str(host.port), "-i", host.key_file]
    return subprocess.run(
        ["ssh", "-F", "none", *options, *target, command],
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
    )


def install(hosts: list[SshHost], directory: Path) -> dict[str, int]:
    """Run the example's playbook on all hosts: host name → changed tasks."""
    inventory = directory / "hosts.ini"
    inventory.write_text(example.inventory(hosts))
    known_hosts = directory / "known_hosts"
    answer = subprocess.run(
        [installed("ansible-playbook"), "-i", inventory, "site.yml"],
        cwd=EXAMPLE,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "ANSIBLE_SSH_COMMON_ARGS": f"-o StrictHostKeyChecking=accept-new -o UserKnownHostsFile={known_hosts}",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(directory / "c"),
            "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=2",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    recap = re.findall(
        r"^(\S+) +: ok=\d+ +changed=(\d+) +unreachable=0 +failed=0", answer.stdout, re.M
    )
    return {name: int(changed) for name, changed in recap}


def test_a_second_installation_changes_nothing(ssh_hosts: list[SshHost], data_dir: Path) -> None:
    assert install(ssh_hosts, data_dir) == {"host1": 4, "host2": 4}
    for host in ssh_hosts:
        root = Path(host.home) / "greeter"
        assert (root / "VERSION").read_text() == "1.0\n"
        checked = subprocess.run([root / "bin/greeter"], capture_output=True, text=True, check=True)
        assert checked.stdout == f"Hello from {host.name}\n"
    assert install(ssh_hosts, data_dir) == {"host1": 0, "host2": 0}


def test_a_host_that_kept_a_wrong_file_fails_the_check(
    ssh_hosts: list[SshHost], data_dir: Path
) -> None:
    install(ssh_hosts[:1], data_dir)
    program = Path(ssh_hosts[0].home) / "greeter/bin/greeter"
    program.write_text("#!/bin/sh\necho broken\n")
    assert install(ssh_hosts[:1], data_dir) == {"host1": 1}
    assert "broken" not in program.read_text()


def test_no_output_is_lost_before_the_exit_status(ssh_hosts: list[SshHost]) -> None:
    expected = "".join(f"{n}\n" for n in range(1, 100_001)).encode()
    for _ in range(10):
        answer = ssh(ssh_hosts[0], "seq 1 100000; echo end >&2; exit 3")
        assert (answer.returncode, answer.stderr) == (3, b"end\n")
        assert answer.stdout == expected


def test_input_reaches_the_command_to_its_end(ssh_hosts: list[SshHost]) -> None:
    given = os.urandom(1_000_000)
    assert ssh(ssh_hosts[0], "cat", given).stdout == given


def test_each_host_has_a_home_an_address_and_a_key_of_its_own(ssh_hosts: list[SshHost]) -> None:
    homes = [ssh(host, 'cd; pwd; echo "$HOME"').stdout.decode().split() for host in ssh_hosts]
    assert homes == [[host.home, host.home] for host in ssh_hosts]
    assert len({host.address for host in ssh_hosts}) == len(ssh_hosts)
    keys = {(Path(host.home).parent / "host_key").read_text() for host in ssh_hosts}
    assert len(keys) == len(ssh_hosts)


def test_another_key_is_not_let_in(ssh_hosts: list[SshHost], tmp_path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True
    )
    stranger = SshHost(**{**vars(ssh_hosts[0]), "key_file": str(tmp_path / "other")})
    answer = ssh(stranger, "echo in")
    assert (answer.returncode, answer.stdout) == (255, b"")


@pytest.mark.parametrize("kill_first", [False, True])
def test_the_hosts_end_with_who_started_them(tmp_path: Path, kill_first: bool) -> None:
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\n"
            "from pathlib import Path\n"
            "from examples.host_install.ssh_hosts import running_hosts\n"
            "with running_hosts(Path(sys.argv[1]), 1) as hosts:\n"
            "    print(hosts[0].port, flush=True)\n"
            "    sys.stdin.read()\n",
            str(tmp_path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    port = int(owner.stdout.readline())
    host = SshHost("host1", "127.0.0.11", port, "installer", str(tmp_path / "client_key"), "")
    assert ssh(host, "true").returncode == 0
    if kill_first:
        owner.send_signal(signal.SIGKILL)
    owner.stdin.close()
    owner.wait(20)
    owner.stdout.close()
    wait_until(lambda: ssh(host, "true").returncode == 255, what="the host is gone")
