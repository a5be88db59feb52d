"""REST v1 against the old service's figures: one client with keep-alive, an idle stack, real plays."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import httpx
from sqlalchemy import text

from benchmarks.figures import Figure
from benchmarks.servers import short_directory
from tests.factories import add_events
from tests.programs import installed
from tests.runner_service import make_root, said
from tests.seed_scenario import FINAL, engine_of
from tests.stack import RunningStack, running_stack
from tests.waiting import wait_until

_HOSTS: Final = (
    "all:\n  hosts:\n    h1:"
    f" {{ansible_connection: local, ansible_python_interpreter: {sys.executable}}}\n"
)
_PLAY: Final = (
    "- hosts: all\n  gather_facts: false\n  tasks:\n"
    "  - ansible.builtin.command: sleep {{ seconds }}\n"
)
POSTS: Final = 60
READS: Final = 300
LISTS: Final = 60
EVENTS: Final = 1_000
PLAYS: Final = 20
#: Rounds of plays through v1 and bare ones, in turns.
ROUNDS: Final = 3
#: What a bare run is: ansible-runner as the old service called it, in a process of its own.
_BARE: Final = """
import sys, ansible_runner
run = ansible_runner.run(private_data_dir=sys.argv[1], playbook="play.yml", quiet=True,
                         extravars={"seconds": 1}, envvars={"LC_ALL": "C.UTF-8"})
sys.exit(run.status != "successful")
"""


def measure() -> list[Figure]:
    """POST, status and event list in milliseconds, and the wall of 20 plays beside bare ones."""
    with short_directory() as directory:
        root = make_root(directory / "root", {"project/play.yml": _PLAY, "inventory/hosts": _HOSTS})
        settings = {"v1_root": root, "v1_ssh_checks": False, "node_capacity": 2 * PLAYS}
        with running_stack(directory / "s", **settings) as stack, _client(stack) as http:
            _wait(http, [_post(http, 0)])
            reads = _reads(stack, http)
            ratio, walls = _walls(http, directory)
            posts = _posts(http)
    return [
        _figure("v1_post_p50", posts),
        _figure("v1_status_p50", reads["status"]),
        _figure("v1_events_1000_p50", reads["events"]),
        Figure("v1_plays_wall_ratio", ratio, "ratio", walls),
    ]


def _figure(name: str, seconds: list[float]) -> Figure:
    found = sorted(each * 1000 for each in seconds)
    spread = f"{len(found)} calls, {found[0]:.1f} to {found[-1]:.1f} ms"
    return Figure(name, median(found), "ms", spread)


def _client(stack: RunningStack) -> httpx.Client:
    return httpx.Client(base_url=f"{stack.state.api_url}/api/v1/", timeout=60, trust_env=False)


def _post(http: httpx.Client, seconds: int) -> str:
    code, _, _, data = said(http.post("playbooks/play.yml", json={"seconds": seconds}))
    assert code == 202
    return str(data["play_uuid"])


def _wait(http: httpx.Client, runs: list[str]) -> None:
    def ended() -> bool:
        return all(said(http.get(f"playbooks/{uuid}"))[2] in FINAL for uuid in runs)

    wait_until(ended, timeout=300, what="all runs have ended")
    words = {said(http.get(f"playbooks/{uuid}"))[2] for uuid in runs}
    assert words == {"successful"}, words


def _timed(http: httpx.Client, method: str, path: str, **options: Any) -> float:
    began = perf_counter()
    answer = http.request(method, path, **options)
    seconds = perf_counter() - began
    assert answer.status_code in (200, 202)
    return seconds


def _posts(http: httpx.Client) -> list[float]:
    """One at a time: the run of each has ended before the next is posted."""
    found = []
    for _ in range(POSTS):
        began = perf_counter()
        uuid = _post(http, 0)
        found.append(perf_counter() - began)
        http.delete(f"playbooks/{uuid}")
        _ended(http, uuid)
    return found


def _ended(http: httpx.Client, uuid: str) -> None:
    wait_until(
        lambda: said(http.get(f"playbooks/{uuid}"))[2] in FINAL, what="the run has been canceled"
    )


def _reads(stack: RunningStack, http: httpx.Client) -> dict[str, list[float]]:
    """Of a play that runs, with as many events."""
    uuid = _post(http, 600)
    wait_until(
        lambda: said(http.get(f"playbooks/{uuid}"))[3]["task"] is not None,
        what="the play has begun its task",
    )
    status = [_timed(http, "GET", f"playbooks/{uuid}") for _ in range(READS)]
    http.delete(f"playbooks/{uuid}")
    _ended(http, uuid)
    with engine_of(stack) as engine, engine.begin() as connection:
        job = connection.scalar(text("SELECT id FROM job WHERE uuid = :uuid"), {"uuid": uuid})
        more = EVENTS - int(said(http.get(f"jobs/{uuid}/events"))[3]["total_events"])
        add_events(
            connection,
            job,
            ["ok: [h1]"] * more,
            host_name="h1",
            event_data={"host": "h1", "task": "a task", "res": {"msg": "x" * 600}},
        )
    assert said(http.get(f"jobs/{uuid}/events"))[3]["total_events"] == EVENTS
    events = [_timed(http, "GET", f"jobs/{uuid}/events") for _ in range(LISTS)]
    return {"status": status, "events": events}


def _walls(http: httpx.Client, directory: Path) -> tuple[float, str]:
    """The median ratio of as many one-second plays at once to the same through bare ansible-runner."""
    ours, bare = [], []
    for number in range(ROUNDS):
        bare.append(_bare(directory / f"bare{number}"))
        began = perf_counter()
        runs = [_post(http, 1) for _ in range(PLAYS)]
        _wait(http, runs)
        ours.append(perf_counter() - began)
    ratio = median(a / b for a, b in zip(ours, bare, strict=True))
    return ratio, f"{median(ours):.1f} s; bare, unlimited {median(bare):.1f} s; {ROUNDS} pairs"


def _bare(directory: Path) -> float:
    """Seconds of all plays at once, each a process of its own."""
    places = []
    for number in range(PLAYS):
        place = directory / str(number)
        for name, content in (("project/play.yml", _PLAY), ("inventory/hosts", _HOSTS)):
            (place / name).parent.mkdir(parents=True)
            (place / name).write_text(content)
        places.append(place)

    programs = str(Path(installed("ansible-playbook")).parent)
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def run(place: Path) -> None:
        command = [sys.executable, "-c", _BARE, str(place)]
        subprocess.run(command, env=environment, check=True, capture_output=True)

    began = perf_counter()
    with ThreadPoolExecutor(PLAYS) as pool:
        list(pool.map(run, places))
    return perf_counter() - began
