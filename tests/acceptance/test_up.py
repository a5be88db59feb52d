"""``dispatcher up``, ``status`` and ``down`` with the real roles: once through, and over a crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.embedded.background import stop_stack
from dispatcher.embedded.state import running_stack
from tests.acceptance.conftest import site
from tests.stack import RunningStack
from tests.waiting import wait_until

#: Runs until its file appears.
HELD = """
- ansible.builtin.file:
    path: "{{ gate }}.reached"
    state: touch
- ansible.builtin.wait_for:
    path: "{{ gate }}"
    timeout: 90
    sleep: 1
"""


def dispatcher(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "dispatcher.cli.main", *arguments],
        env=os.environ | {"DISPATCHER_DATA_DIR": str(data_dir), "DISPATCHER_NODE_NAME": "n1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def status_of(data_dir: Path) -> dict[str, Any]:
    shown = dispatcher(data_dir, "status", "--json")
    assert shown.returncode == 0, shown.stderr
    answer: dict[str, Any] = json.loads(shown.stdout)
    return answer


def processes_on(data_dir: Path) -> dict[int, str]:
    """Every process whose program, arguments or variables name the directory: pid → command."""
    found = {}
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or int(place.name) == os.getpid():
            continue
        try:
            command = (place / "cmdline").read_bytes()
            if os.fsencode(data_dir) in command + (place / "environ").read_bytes():
                found[int(place.name)] = command.replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    return found


@pytest.fixture
def own_dir(data_dir: Path) -> Iterator[Path]:
    """A data directory on which nothing runs in the end."""
    yield data_dir
    stop_stack(data_dir)


def test_up_status_a_second_node_and_down(own_dir: Path) -> None:
    assert dispatcher(own_dir, "status").returncode == 3

    up = dispatcher(own_dir, "up", "--detach", "--port", "0")
    assert up.returncode == 0, up.stderr
    state = running_stack(own_dir)
    assert state is not None
    assert f"ready: API at {state.api_url}, token in {own_dir / 'token'}" in up.stderr

    shown = status_of(own_dir)
    assert {process["name"]: process["state"] for process in shown["processes"]} == dict.fromkeys(
        ("postgresql", "valkey", "api", "beat", "control", "worker"), "ready"
    )
    assert [(node["name"], node["state"]) for node in shown["nodes"]] == [("n1", "alive")]
    assert "n1" in dispatcher(own_dir, "status").stdout

    second = dispatcher(own_dir, "up")
    assert second.returncode == 2
    assert f"(pid {state.up.pid}, API at {state.api_url}); dispatcher down stops it" in (
        second.stderr
    )

    stack = RunningStack(own_dir, state)
    with stack.worker("n2"):
        wait_until(
            lambda: (
                ("n2", "alive") in [(n["name"], n["state"]) for n in status_of(own_dir)["nodes"]]
            ),
            what="n2 joins with no other step",
        )
    assert (own_dir / "nodes" / "n2").is_dir()

    down = dispatcher(own_dir, "down")
    assert down.returncode == 0, down.stderr
    assert processes_on(own_dir) == {}
    assert dispatcher(own_dir, "status").returncode == 3
    again = dispatcher(own_dir, "down")
    assert again.returncode == 0
    assert "nothing runs" in again.stderr


def test_an_interrupted_start_in_the_background_leaves_nothing(own_dir: Path) -> None:
    start = subprocess.Popen(
        [sys.executable, "-P", "-m", "dispatcher.cli.main", "up", "--detach", "--port", "0"],
        env=os.environ | {"DISPATCHER_DATA_DIR": str(own_dir), "DISPATCHER_NODE_NAME": "n1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: running_stack(own_dir), timeout=60, what="the stack starts")
    start.send_signal(signal.SIGINT)
    _, said = start.communicate(timeout=60)
    assert start.returncode not in (0, None), said
    assert processes_on(own_dir) == {}
    assert running_stack(own_dir) is None


def test_a_running_job_outlives_a_killed_up_and_ends_under_the_next_one(
    own_dir: Path, tmp_path: Path
) -> None:
    assert dispatcher(own_dir, "up", "--detach", "--port", "0").returncode == 0
    state = running_stack(own_dir)
    assert state is not None
    stack, gate = RunningStack(own_dir, state), tmp_path / "gate"
    with stack.client() as client:
        bundle = stack.pack(tmp_path / "held", {"site.yml": site(HELD)})
        job = stack.launch(client, bundle, extra_vars={"gate": str(gate)})
        wait_until(Path(f"{gate}.reached").exists, timeout=60, what="the playbook runs")

    os.kill(state.up.pid, signal.SIGKILL)
    for process in state.processes:
        assert process.mark is not None
        wait_until(lambda mark=process.mark: not mark.alive(), what=f"{process.name} ends")
    assert dispatcher(own_dir, "status").returncode == 3

    again = dispatcher(own_dir, "up", "--detach", "--port", "0")
    assert again.returncode == 0, again.stderr
    gate.touch()
    next_state = running_stack(own_dir)
    assert next_state is not None
    stack = RunningStack(own_dir, next_state)
    with stack.client() as client:
        stack.wait(client, [job.id])
        ended = client.job(job.id)
        assert (ended.status, ended.explanation) == ("successful", "")
        assert sum(e.event == "playbook_on_start" for e in client.events(job.id, after=0)) == 1
