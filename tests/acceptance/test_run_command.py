"""`dispatcher run` on the whole stack: real playbooks, real outcomes, real exit codes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from dispatcher.client.client import Client
from dispatcher.embedded.state import running_stack as find_stack
from dispatcher.secrets import make_key_file
from tests.acceptance.conftest import site
from tests.command_line import ROOT, dispatcher, start
from tests.stack import LOCALHOST, RunningStack
from tests.waiting import wait_until

#: Longer than any run takes on a busy machine.
PATIENCE = 150


@pytest.fixture
def found(stack: RunningStack) -> dict[str, str]:
    """No URL and no token: the command finds the running stack by its data directory."""
    return {"DISPATCHER_DATA_DIR": str(stack.data_dir)}


def project(directory: Path, tasks: str) -> Path:
    (directory / "site.yml").write_text(site(tasks))
    (directory / "hosts.ini").write_text(LOCALHOST)
    return directory


def test_hello_world_runs_with_files_vars_and_a_secret(
    found: dict[str, str], tmp_path: Path
) -> None:
    project(
        tmp_path,
        """
- ansible.builtin.debug:
    msg: "{{ lookup('file', 'greeting.txt') }} {{ who }} {{ password }}"
""",
    )
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "greeting.txt").write_text("Grüß Gott")
    answer = dispatcher(
        *("run", "site.yml", "-i", "hosts.ini", "-e", "who=世界", "--secret-var", "password"),
        cwd=tmp_path,
        timeout=PATIENCE,
        password="hunter2-hunter2",
        **found,
    )
    assert answer.returncode == 0, answer.stderr
    assert "Grüß Gott 世界" in answer.stdout
    assert "hunter2" not in answer.stdout + answer.stderr
    assert "PLAY RECAP" in answer.stdout
    assert "\x1b" not in answer.stdout
    assert "successful after" in answer.stderr.splitlines()[-1]
    assert "1 host, 0 changed, 0 failed, 0 unreachable" in answer.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("tasks", "options", "code", "words"),
    [
        ("- ansible.builtin.fail:\n", (), 1, "failed_hosts"),
        ("- ansible.builtin.ping:\n", ("-l", "nowhere"), 6, "no_hosts"),
        ("- ansible.builtin.ping:\n", ("-l", "nowhere", "--allow-no-hosts"), 0, "successful"),
        ("- ansible.builtin.ping: [\n", (), 7, "parse_error"),
        ("- ansible.builtin.pause:\n    prompt: Really?\n", (), 7, "waits_for_input"),
        ("- ansible.builtin.pause:\n    seconds: 90\n", ("--timeout", "4"), 8, "timeout"),
        (
            "- ansible.builtin.ping:\n",
            ("-e", "ansible_connection=ssh ansible_host=127.0.0.99 ansible_port=9"),
            5,
            "unreachable",
        ),
    ],
)
def test_each_end_of_a_playbook_has_its_exit_code(
    found: dict[str, str],
    tmp_path: Path,
    tasks: str,
    options: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    project(tmp_path, tasks)
    arguments = ("run", "site.yml", "-i", "hosts.ini", *options)
    answer = dispatcher(*arguments, cwd=tmp_path, timeout=PATIENCE, **found)
    assert answer.returncode == code, answer.stdout + answer.stderr
    assert words in answer.stderr.splitlines()[-1]


def test_ctrl_c_stops_the_playbook_and_leaves_no_process(
    found: dict[str, str], tmp_path: Path
) -> None:
    marker = f"sleep 8{os.getpid()}"
    project(tmp_path, f"- ansible.builtin.command: {marker}\n")
    process = start("run", "site.yml", "-i", "hosts.ini", cwd=tmp_path, **found)
    wait_until(lambda: runs(marker), timeout=PATIENCE, what="the playbook's task runs")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert "TASK" in out
    assert not runs(marker)


def runs(command: str) -> bool:
    """Whether a process with this command line exists."""
    wanted = command.replace(" ", "\0").encode()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if file.read_bytes().rstrip(b"\0").endswith(wanted):
                return True
        except OSError:
            continue
    return False


def test_a_role_reports_its_health_and_a_further_worker_joins(
    stack: RunningStack, found: dict[str, str], client: Client, tmp_path: Path
) -> None:
    for role in ("api", "beat", "control", "worker"):
        answer = dispatcher("health", role, cwd=tmp_path, DISPATCHER_NODE_NAME="n1", **found)
        assert answer.returncode == 0, answer.stderr
    with stack.worker("n3"):
        wait_until(
            lambda: "n3" in {node.name for node in client.nodes() if node.state == "alive"},
            timeout=60,
            what="the node has joined",
        )
        listed = json.loads(dispatcher("node", "list", "--json", cwd=tmp_path, **found).stdout)
        assert {"n1", "n3"} <= {node["hostname"] for node in listed}
    nobody = dispatcher("health", "worker", cwd=tmp_path, DISPATCHER_DATA_DIR=str(tmp_path))
    assert nobody.returncode == 1
    assert "has said nothing" in nobody.stderr


def test_tokens_are_made_used_and_revoked(
    stack: RunningStack, found: dict[str, str], tmp_path: Path
) -> None:
    token = dispatcher("token", "create", "ci", cwd=tmp_path, **found).stdout.strip()
    server = {"DISPATCHER_URL": stack.state.api_url, "DISPATCHER_TOKEN": token}
    assert dispatcher("jobs", "list", cwd=tmp_path, **server).returncode == 0
    listed = json.loads(dispatcher("token", "list", "--json", cwd=tmp_path, **found).stdout)
    number = next(each["id"] for each in listed if each["name"] == "ci")
    assert dispatcher("token", "revoke", number, cwd=tmp_path, **found).returncode == 0
    answer = dispatcher("jobs", "list", cwd=tmp_path, **server)
    assert answer.returncode == 2
    assert "token" in answer.stderr.lower()
    assert token not in answer.stderr


def test_without_a_server_the_stack_is_started_and_used_again(
    data_dir: Path, tmp_path: Path
) -> None:
    alone = {"DISPATCHER_DATA_DIR": str(data_dir), "DISPATCHER_API_PORT": "0"}
    arguments = ("run", str(ROOT / "examples/hello/site.yml"), "-i", "localhost,")
    try:
        first = dispatcher(*arguments, cwd=tmp_path, timeout=PATIENCE, **alone)
        assert first.returncode == 0, first.stderr
        assert "Hello from localhost" in first.stdout
        assert "starting the embedded stack" in first.stderr
        second = dispatcher(*arguments, cwd=tmp_path, timeout=PATIENCE, **alone)
        assert second.returncode == 0, second.stderr
        assert "starting" not in second.stderr
        assert "uploading" not in second.stderr
    finally:
        down = dispatcher("down", cwd=tmp_path, **alone)
    assert down.returncode == 0
    assert find_stack(data_dir) is None
    assert dispatcher("status", cwd=tmp_path, **alone).returncode == 3


def test_a_database_is_made_ready_by_migrate(
    empty_database_url: str, data_dir: Path, tmp_path: Path
) -> None:
    variables = {
        "DISPATCHER_DATABASE_URL": empty_database_url,
        "DISPATCHER_KEY_FILE": str(data_dir / "keys" / "cluster.key"),
    }
    arguments = ("migrate", "--key", "--first-token", str(tmp_path / "token"))
    first = dispatcher(*arguments, cwd=tmp_path, **variables)
    assert first.returncode == 0, first.stderr
    token = tmp_path / "token"
    assert token.read_text().startswith("dsp_")
    assert token.stat().st_mode & 0o777 == 0o600
    assert (data_dir / "keys" / "cluster.key").stat().st_mode & 0o777 == 0o600
    key, kept = (data_dir / "keys" / "cluster.key").read_bytes(), token.read_text()
    again = dispatcher(*arguments, cwd=tmp_path, **variables)
    assert again.returncode == 0, again.stderr
    assert "up to date" in again.stderr
    assert (data_dir / "keys" / "cluster.key").read_bytes() == key
    assert token.read_text() == kept


def test_a_role_refuses_what_it_cannot_work_with_in_one_line(
    empty_database_url: str, broker_url: str, data_dir: Path, tmp_path: Path
) -> None:
    servers = {
        "DISPATCHER_DATABASE_URL": empty_database_url,
        "DISPATCHER_BROKER_URL": broker_url,
        "DISPATCHER_DATA_DIR": str(data_dir),
    }
    make_key_file(data_dir / "cluster.key")
    for role in ("api", "beat", "control", "worker"):
        answer = dispatcher(role, cwd=tmp_path, **servers)
        assert answer.returncode == 2, answer.stderr
        assert "dispatcher migrate" in answer.stderr
        assert "Traceback" not in answer.stderr
        nothing = dispatcher(role, cwd=tmp_path, DISPATCHER_DATA_DIR=str(data_dir))
        assert nothing.returncode == 2
        assert "DISPATCHER_DATABASE_URL" in nothing.stderr
