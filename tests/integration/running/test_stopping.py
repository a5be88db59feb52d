"""Runs that are stopped, paused or bereaved leave no process behind, and say what happened."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from dispatcher import clock, processes
from tests.runs import Run, Runs
from tests.waiting import wait_until
from workers import lease_file
from workers.fork_server import ForkServer, ForkServerGone
from workers.spool import SpoolReader

#: A task with a child that takes no SIGTERM and has left its session.
STUBBORN = """
- shell: |
    setsid sh -c 'trap "" TERM; echo $$ > {{ playbook_dir }}/pid; while :; do sleep 1; done' &
    sleep 300
"""
SLEEP = "- debug: msg=begun\n- command: sleep 300\n"
CHATTY = """
- debug: msg="{{ item }} {{ 'x' * 1000 }}"
  loop: "{{ range(60) | list }}"
- debug: msg=done
"""


@pytest.fixture(scope="module")
def sleepers(runs: Runs) -> list[tuple[Run, Path]]:
    """Runs in a long task, each with a lease of its own; all at once, because a start takes long."""
    started = []
    for number in range(5):
        lease = runs.data_dir / f"lease-{number}"
        lease_file.write(lease, clock.boottime() + 1000)
        started.append((runs.start(SLEEP, lease_file=str(lease)), lease))
    return started


@pytest.fixture
def sleeping(sleepers: list[tuple[Run, Path]]) -> tuple[Run, Path]:
    """One of them, once its task runs, and its lease file."""
    run, lease = sleepers.pop()
    wait_until(lambda: "sleep" in commands(run), timeout=60, what="a running task")
    return run, lease


def commands(run: Run) -> set[str]:
    found = set()
    for pid in run.processes():
        try:
            found.add(Path(f"/proc/{pid}/comm").read_text().strip())
        except OSError:
            continue
    return found


def is_dead(pid: int) -> bool:
    found = processes.read(pid)
    return found is None or found.state in "ZX"


def gone(run: Run) -> bool:
    return not run.processes()


def test_a_cancel_ends_the_playbook_and_all_it_started(runs: Runs) -> None:
    run = runs.start(STUBBORN, stop_grace=1.0)
    pid_file = run.run_dir.project / "pid"
    wait_until(lambda: pid_file.exists() and pid_file.read_text().strip(), timeout=40)
    assert len(run.processes()) > 3
    run.run_dir.request_stop("cancel")
    result = run.wait()
    assert run.processes() == []
    assert result.evidence.stop == "cancel"
    assert result.evidence.killed >= 1
    assert run.decided().outcome == "canceled"
    assert "[dispatcher] canceled on request" in run.stdout()


def test_a_cancel_before_the_start_starts_nothing(runs: Runs) -> None:
    run_dir = runs.prepare({"site.yml": "- hosts: all\n"})
    run_dir.request_stop("cancel")
    run = Run(run_dir, runs.server.start_supervisor(run_dir.path))
    assert (run.decided().outcome, run.wait().evidence.rc) == ("canceled", None)
    assert run.events()[0]["event"] == "system_warning"


def test_sigterm_to_the_supervisor_is_a_shutdown_that_needs_no_kill(
    sleeping: tuple[Run, Path],
) -> None:
    run, _ = sleeping
    os.kill(run.pid, signal.SIGTERM)
    assert run.wait().evidence.stop == "shutdown"
    assert run.wait().evidence.killed == 0
    assert run.decided().outcome == "canceled"
    assert gone(run)


def test_a_killed_supervisor_takes_its_playbook_along(sleeping: tuple[Run, Path]) -> None:
    run, _ = sleeping
    # the wrapper does not have the playbook's environment: found while it is a descendant
    wrapper = next(each for each in processes.descendants(run.pid) if each.parent == run.pid)
    os.kill(run.pid, signal.SIGKILL)
    wait_until(lambda: gone(run) and is_dead(wrapper.pid))
    assert not run.run_dir.is_alive()
    assert run.run_dir.read_result() is None
    batch = SpoolReader(run.run_dir.spool).read(0, cut=True)
    assert (batch.total, batch.torn) == (None, False)
    assert [event["counter"] for event in run.events()] == list(range(1, len(batch.lines) + 1))


def test_a_killed_wrapper_ends_the_run(sleeping: tuple[Run, Path]) -> None:
    run, _ = sleeping
    wrapper = next(each for each in processes.descendants(run.pid) if each.parent == run.pid)
    os.kill(wrapper.pid, signal.SIGKILL)
    assert run.wait().evidence.stats is None
    assert run.decided().outcome == "incomplete"
    assert gone(run)


def test_a_lapsed_lease_stops_a_living_run_at_once(sleeping: tuple[Run, Path]) -> None:
    run, lease = sleeping
    record = run.run_dir.read_supervisor()
    assert record is not None
    assert (record.pid, record.pid_start) == (run.pid, processes.start_of(run.pid))
    first = run.run_dir.sign_of_life()
    wait_until(lambda: run.run_dir.sign_of_life() != first)
    lease_file.write(lease, clock.boottime() - 1)
    wait_until(lambda: gone(run))
    assert run.wait().evidence.stop == "fenced"
    assert run.decided().outcome == "fenced"


def test_the_wrapper_stops_the_playbook_of_a_frozen_supervisor(sleeping: tuple[Run, Path]) -> None:
    run, lease = sleeping
    os.kill(run.pid, signal.SIGSTOP)
    lease.unlink()
    wait_until(lambda: gone(run))
    os.kill(run.pid, signal.SIGCONT)
    # sticky: a renewal that comes now changes nothing
    lease_file.write(lease, clock.boottime() + 1000)
    assert run.wait().evidence.stop == "fenced"
    assert run.wait().evidence.killed >= 1


def test_nothing_is_started_under_a_lapsed_lease(runs: Runs, tmp_path: Path) -> None:
    run = runs.start("- debug:", lease_file=str(tmp_path / "none"))
    assert (run.decided().outcome, run.wait().evidence.rc) == ("fenced", None)


def test_a_run_is_started_once(runs: Runs) -> None:
    run_dir = runs.prepare({"site.yml": "- hosts: all\n"})
    assert run_dir.take_start()
    loser = runs.server.start_supervisor(run_dir.path)
    exits: list[tuple[int, int]] = []
    wait_until(lambda: exits.extend(runs.server.poll_exits()) or loser in dict(exits))
    assert os.waitstatus_to_exitcode(dict(exits)[loser]) == 3
    assert not run_dir.spool.exists()


def test_a_full_quota_pauses_the_playbook_until_it_is_shipped(runs: Runs) -> None:
    run = runs.start(CHATTY, spool_quota_bytes=30_000, idle_timeout=2, prompt_timeout=0.5)
    wait_until(lambda: stopped(run), timeout=40)
    size = SpoolReader(run.run_dir.spool).size
    assert 30_000 < size < 120_000
    # it stands still for longer than the idle time-out
    begun = clock.monotonic()
    wait_until(lambda: clock.monotonic() > begun + 3)
    assert stopped(run)
    assert "done" not in run.stdout()
    run.run_dir.write_shipped(10_000_000)
    assert run.decided().outcome == "successful"
    assert "done" in run.stdout()


def stopped(run: Run) -> bool:
    """Whether ansible-playbook and its workers are all stopped."""
    states = [processes.read(pid) for pid in run.processes()]
    ours = [each.state for each in states if each is not None and each.parent != run.pid]
    return bool(ours) and set(ours) == {"T"}


def test_a_paused_playbook_can_be_canceled(runs: Runs) -> None:
    run = runs.start(CHATTY, spool_quota_bytes=30_000)
    wait_until(lambda: stopped(run), timeout=40)
    run.run_dir.request_stop("cancel")
    assert run.decided().outcome == "canceled"
    assert gone(run)


@pytest.mark.parametrize("logged", [0, 40_000], ids=["", "nor the log"])
def test_a_spool_that_cannot_be_written_ends_the_run(runs: Runs, logged: int) -> None:
    run = runs.start("- debug: msg=begun\n" + CHATTY + SLEEP)
    run.shows("begun")
    run.run_dir.log.write_bytes(b"x" * logged)
    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (30_000, 30_000))
    wait_until(run.is_over, timeout=40)
    result = run.run_dir.read_result()
    assert result is not None
    assert result.evidence.fault_stage == "internal"
    assert "File too large" in result.evidence.fault
    events = run.events()
    assert [event["counter"] for event in events] == list(range(1, result.events_total + 1))
    assert gone(run)


def test_what_a_playbook_left_behind_ends_with_it(runs: Runs) -> None:
    run = runs.start("- shell: setsid sleep 300 > /dev/null 2>&1 < /dev/null &\n")
    assert run.decided().outcome == "successful"
    assert gone(run)


def test_supervisors_outlive_the_fork_server_and_the_agent(runs: Runs) -> None:
    server = ForkServer.start(runs.data_dir, "n1")
    run_dir = runs.prepare(
        {"site.yml": "- hosts: all\n  gather_facts: false\n  tasks:\n    - pause: seconds=2\n"}
    )
    run = Run(run_dir, server.start_supervisor(run_dir.path))
    wait_until(run_dir.is_alive)
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(ForkServerGone):
        server.start_supervisor(run_dir.path)
    with pytest.raises(ForkServerGone):
        server.poll_exits()
    server.close()
    assert run.decided().outcome == "successful"


def test_the_fork_server_ends_with_its_agent_and_tells_of_ends_before(runs: Runs) -> None:
    server = ForkServer.start(runs.data_dir, "n1")
    run_dir = runs.prepare({"x.yml": ""})
    pid = server.start_supervisor(run_dir.path)
    exits: list[tuple[int, int]] = []
    wait_until(lambda: exits.extend(server.poll_exits()) or exits)
    assert exits == [(pid, 0)]
    server.close()
    assert processes.read(server.pid) is None
