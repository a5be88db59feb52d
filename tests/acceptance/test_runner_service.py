"""Clients of the old runner service on the whole stack: their loop, and what it lost runs by."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.roles import command_line
from tests.runner_service import make_root, said
from tests.stack import RunningStack, running_stack
from tests.waiting import wait_until

LOCAL = f"{{ansible_connection: local, ansible_python_interpreter: {sys.executable}}}"
FILES = {
    "inventory/hosts": f"""\
all:
  children:
    nodes:
      hosts:
        h1: {LOCAL}
        h2: {LOCAL}
    dead:
      hosts:
        d1: {{ansible_host: 127.0.0.1, ansible_port: 1}}
""",
    "project/slow.yml": """\
- hosts: h1
  gather_facts: false
  tasks:
  - name: wait
    ansible.builtin.command: sleep {{ seconds }}
  - name: say
    ansible.builtin.debug: {msg: "[NORMAL] waited {{ seconds }}"}
""",
    "project/mixed.yml": """\
- hosts: all
  gather_facts: false
  tasks:
  - name: reach
    ansible.builtin.ping:
  - name: ignored
    ansible.builtin.command: "false"
    ignore_errors: true
  - name: skipped
    ansible.builtin.debug: {msg: never}
    when: false
  - name: one fails
    ansible.builtin.fail: {msg: on purpose}
    when: inventory_hostname == 'h2'
  - name: the end
    ansible.builtin.debug: {msg: "color is {{ color }}"}
""",
    "project/group_vars/nodes.yml": "color: green\n",
    "config.yaml": "runner_cache_size: 5\nevent_threads: 10\nssh_checks: false\n",
}
FINAL = ("successful", "failed", "canceled", "timeout")


@pytest.fixture(scope="module")
def root(session_dir: Path) -> Path:
    root = make_root(session_dir / "runner-service", FILES)
    with (root / "config.yaml").open("a") as file:
        file.write(f"playbooks_root_dir: {root}\n")
    return root


@pytest.fixture(scope="module")
def stack(root: Path, session_dir: Path) -> Iterator[RunningStack]:
    with running_stack(session_dir / "v1", v1_config=root / "config.yaml") as running:
        yield running


@pytest.fixture(scope="module")
def v1(stack: RunningStack) -> Iterator[httpx.Client]:
    with client(stack) as http:
        yield http


def client(stack: RunningStack) -> httpx.Client:
    """A client that knows nothing of tokens."""
    return httpx.Client(base_url=f"{stack.state.api_url}/api/v1", timeout=30, trust_env=False)


def start(v1: httpx.Client, path: str, **variables: Any) -> str:
    code, status, msg, data = said(v1.post(f"playbooks/{path}", json=variables))
    assert (code, status) == (202, "STARTED")
    assert msg in ("starting", "running")
    return str(data["play_uuid"])


class Follower:
    """The loop of the two known clients: status, then new events by key, then each one's details."""

    def __init__(self, v1: httpx.Client, uuid: str) -> None:
        self.v1, self.uuid = v1, uuid
        self.last = 0
        self.events: list[dict[str, Any]] = []
        self.poll()  # at once: the events of a run that waits

    def poll(self) -> str:
        """The run's word, once everything that came before it is read."""
        code, status, msg, _ = said(self.v1.get(f"playbooks/{self.uuid}"))
        assert (code, status) == (200, "OK")
        code, status, _, data = said(self.v1.get(f"jobs/{self.uuid}/events"))
        assert (code, status) == (200, "OK")
        assert data["total_events"] == len(data["events"])
        for key in sorted(data["events"], key=lambda key: int(key.split("-")[0])):
            number = int(key.split("-")[0])
            if number <= self.last:
                continue
            assert number == self.last + 1
            self.last = number
            code, status, _, event = said(self.v1.get(f"jobs/{self.uuid}/events/{key}"))
            assert (code, status) == (200, "OK")
            assert isinstance(event["stdout"], str)
            event["event_data"].get("task_action")
            self.events.append(event)
        return msg

    def to_the_end(self) -> str:
        return wait_until(
            lambda: word if (word := self.poll()) in FINAL else None,
            timeout=90,
            what=f"run {self.uuid} has ended",
        )

    def named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == name]


def test_a_run_with_failures_is_followed_as_the_old_clients_do(v1: httpx.Client) -> None:
    follower = Follower(v1, start(v1, "mixed.yml?check=false"))
    assert follower.to_the_end() == "failed"
    data = said(v1.get(f"playbooks/{follower.uuid}"))[3]
    assert {e["event_data"]["host"] for e in follower.named("runner_on_unreachable")} == {"d1"}
    ignored = [e["event_data"]["ignore_errors"] for e in follower.named("runner_on_failed")]
    assert sorted(bool(each) for each in ignored) == [False, True, True]
    counted = {
        "ok": len(follower.named("runner_on_ok")),
        "failed": 1,
        "skipped": len(follower.named("runner_on_skipped")),
        "last_task_num": follower.last,
        "task": "the end",
    }
    assert {name: data[name] for name in counted} == counted
    assert list(data["failures"]) == ["h2"]
    assert data["failures"]["h2"]["event_data"]["res"]["msg"] == "on purpose"
    assert data["task_metadata"]["task_action"] == "ansible.builtin.debug"
    said_last = follower.named("runner_on_ok")[-1]["stdout"]
    assert '"msg": "color is green"' in said_last
    assert "\x1b[" in said_last


def test_seven_plays_at_once_with_a_cache_of_five_lose_nothing(v1: httpx.Client) -> None:
    # the oldest is the longest: the old service evicted it as soon as a short one had ended
    seconds = (6, 3, 1, 1, 1, 1, 1)
    runs = [Follower(v1, start(v1, "slow.yml", seconds=n)) for n in seconds]

    def all_ended() -> bool:
        return {run.poll() for run in runs} <= set(FINAL)

    wait_until(all_ended, timeout=120, what="all seven have ended")
    for run, number in zip(runs, seconds, strict=True):
        code, status, msg, data = said(v1.get(f"playbooks/{run.uuid}"))
        assert (code, status, msg) == (200, "OK", "successful")
        assert (data["ok"], data["failed"], data["skipped"]) == (2, 0, 0)
        assert data["last_task_num"] == run.last
        assert f"waited {number}" in run.named("runner_on_ok")[-1]["stdout"]
    metrics = httpx.get(str(v1.base_url).replace("/api/v1/", "/metrics"), trust_env=False).text
    assert 'runner_service_event_status{event_status="ok",hostname="h1"}' in metrics


def test_a_running_play_is_canceled(v1: httpx.Client) -> None:
    follower = Follower(v1, start(v1, "slow.yml", seconds=100))
    wait_until(
        lambda: follower.poll() and follower.named("playbook_on_task_start"),
        timeout=60,
        what="the task has started",
    )
    assert said(v1.delete(f"playbooks/{follower.uuid}"))[:2] == (200, "OK")
    assert follower.to_the_end() == "canceled"


def sleeping(seconds: int) -> bool:
    """Whether a process that a play with so many seconds has started is alive."""
    wanted = ["sleep", str(seconds)]
    pids = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
    return any(command_line(pid)[-3:-1] == wanted for pid in pids)


def test_a_run_goes_on_without_its_api_and_is_canceled_by_the_next(
    v1: httpx.Client, stack: RunningStack
) -> None:
    seconds = 98_764
    follower = Follower(v1, start(v1, "slow.yml", seconds=seconds))
    wait_until(lambda: sleeping(seconds), what="the task runs")
    (killed,) = stack.pids("api")
    os.kill(killed, signal.SIGKILL)

    def answers() -> bool:
        try:
            return v1.get("playbooks").status_code == 200
        except httpx.TransportError:
            return False

    wait_until(answers, what="the next API process answers")
    assert stack.pids("api") != [killed]
    assert follower.poll() == "running"
    assert sleeping(seconds)
    assert said(v1.get(f"playbooks/{follower.uuid}"))[3]["task"] == "wait"
    assert said(v1.delete(f"playbooks/{follower.uuid}"))[:2] == (200, "OK")
    assert follower.to_the_end() == "canceled"
    assert not sleeping(seconds)


def test_tags_limit_and_check_reach_the_playbook(v1: httpx.Client) -> None:
    follower = Follower(v1, start(v1, "mixed.yml/tags/never1?limit=h1&check=true"))
    assert follower.to_the_end() == "successful"
    assert not follower.named("runner_on_ok")
    follower = Follower(v1, start(v1, "mixed.yml?limit=h1&check=true"))
    assert follower.to_the_end() == "successful"
    assert {e["event_data"]["host"] for e in follower.named("runner_on_ok")} == {"h1"}


def test_a_changed_playbook_is_what_runs_next(v1: httpx.Client, root: Path) -> None:
    play = "- hosts: h1\n  gather_facts: false\n  tasks:\n  - debug: {msg: number %d}\n"
    file = root / "project" / "changing.yml"
    for number in (1, 2):
        file.write_text(play % number)

        def shown() -> bool:
            follower = Follower(v1, start(v1, "changing.yml"))
            assert follower.to_the_end() == "successful"
            return f"number {number}" in follower.named("runner_on_ok")[0]["stdout"]  # noqa: B023

        if number == 1:
            # a look less than a second ago may not have seen the new file's content
            assert shown()
        else:
            wait_until(shown, timeout=30, what="the change is run")
