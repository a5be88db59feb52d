"""Processes: found, ended and reaped with all their descendants."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

#: Runs in a process of its own, which becomes a subreaper with SIGCHLD blocked.
BEGIN = """
import json, os, signal, subprocess, sys
from dispatcher import processes
from workers import process_tree
processes.become_subreaper()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
def shell(script):
    child = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    child.stdout.readline()
    return child.pid
"""
STUBBORN = """trap '' TERM; echo; while :; do sleep 0.1; done"""


def answer(script: str) -> Any:
    ran = subprocess.run(
        [sys.executable, "-c", BEGIN + script], capture_output=True, text=True, timeout=30
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_sweep_kills_only_what_does_not_end_on_sigterm() -> None:
    stubborn, killed, left = answer(
        f"""
shell("echo; exec sleep 100")
stubborn = shell({STUBBORN!r})
swept = process_tree.sweep(grace=0.5)
print(json.dumps([stubborn, swept.killed, process_tree.reap()[0]]))
"""
    )
    assert stubborn in killed
    assert len(killed) <= 2  # its own sleep may take one too
    assert left is False


def test_a_sweep_reaches_those_that_left_session_and_parent() -> None:
    found, swept = answer(
        """
shell("setsid sh -c 'sleep 100 & echo; exec sleep 100' & wait %1 & sleep 0.2; exit")
found = {each.pid for each in processes.descendants(os.getpid())}
swept = process_tree.sweep(grace=0)
print(json.dumps([len(found), len(set(swept.killed) & found)]))
"""
    )
    assert found >= 2
    assert swept >= 2


def test_a_sweep_wakes_what_is_stopped() -> None:
    """A stop that was sent takes a moment to arrive on another core: it is waited for."""
    assert (
        answer(
            """
pid = shell("echo; exec sleep 100")
process_tree.stop_all(os.getpid())
while processes.read(pid).state != "T":
    pass
swept = process_tree.sweep(grace=5)
print(json.dumps(swept.killed))
"""
        )
        == []
    )


def test_processes_of_another_account_are_given_up_and_named() -> None:
    pid, survivors = answer(
        """
pid = shell("echo; exec sleep 100")
real = os.kill
def refused(pid, signum):
    raise PermissionError
os.kill = refused
swept = process_tree.sweep(grace=0, give_up=0.2)
real(pid, signal.SIGKILL)
print(json.dumps([pid, swept.survivors]))
"""
    )
    assert survivors == [pid]


def test_a_dead_parent_is_noticed_although_its_signal_never_comes() -> None:
    assert (
        answer(
            """
print(json.dumps(processes.die_with_parent(os.getppid() + 1, signal.SIGTERM)))
"""
        )
        is False
    )
