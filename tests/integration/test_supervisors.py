"""Supervisors that give no sign of life, or do not stop, are ended with all that is theirs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from dispatcher import clock
from dispatcher.domain.outcome import Outcome
from dispatcher.settings import Settings
from tests.nodes import LOCAL, paced
from tests.roles import command_line
from tests.waiting import wait_until
from workers import lease_file, leftovers, supervisors
from workers.finish import clear_away, ending_of
from workers.run_dir import JobSpec, RunDir
from workers.runs import Phase, Run, Runs
from workers.spool import SpoolReader
from workers.supervisors import Supervisors


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def watch(settings: Settings, runs: Runs) -> Iterator[Supervisors]:
    made = Supervisors(settings, "n1", runs, lambda run: None)
    lease_file.write(lease_file.lease_path(settings.data_dir), clock.boottime() + 300)
    yield made
    for run in runs.at(Phase.STARTED):
        made.kill_all(supervisors.FENCED)
        leftovers.clear(run.directory.dispatch_id, patience=0)
    made.close()


def start(settings: Settings, runs: Runs, watch: Supervisors, play: str, **spec: float) -> Run:
    """A run whose playbook runs."""
    dispatch_id = uuid4()
    directory = RunDir.create(settings.data_dir, str(dispatch_id))
    directory.project.mkdir()
    (directory.project / "site.yml").write_text(play)
    directory.write_job(
        JobSpec(
            job_id=1,
            dispatch_id=str(dispatch_id),
            node="n1",
            lease_file=str(lease_file.lease_path(settings.data_dir)),
            playbook="site.yml",
            inventory=LOCAL,
            stop_grace=0.5,
            **spec,  # type: ignore[arg-type]
        )
    )
    run = Run(1, dispatch_id, directory, Phase.READY)
    runs.add(run)
    watch.start(run)
    spool = SpoolReader(directory.spool)
    wait_until(lambda: spool.read(0).lines, timeout=60, what="the playbook runs")
    return run


def supervisor_pid(run: Run) -> int:
    record = run.directory.read_supervisor()
    assert record is not None
    return record.pid


def ended(run: Run, watch: Supervisors) -> bool:
    watch.watch(0.1)
    return run.phase is Phase.ENDING


def test_a_stopped_supervisor_is_killed_and_its_playbook_with_it(
    settings: Settings, runs: Runs, watch: Supervisors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "SILENT_LIMIT", 2.5)
    run = start(settings, runs, watch, paced(settings.data_dir / "never"))
    watch.watch(0)
    os.kill(supervisor_pid(run), signal.SIGSTOP)
    wait_until(lambda: ended(run, watch))
    assert run.verdict is not None
    assert run.verdict.outcome is Outcome.INTERNAL
    assert "no sign of life" in run.verdict.explanation
    clear_away(run)
    assert leftovers.find(str(run.dispatch_id)) == []


def test_a_supervisor_that_does_not_act_on_a_stop_is_killed_and_the_job_is_canceled(
    settings: Settings, runs: Runs, watch: Supervisors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "LATE", -settings.stop_grace + 1)
    run = start(settings, runs, watch, paced(settings.data_dir / "never"))
    os.kill(supervisor_pid(run), signal.SIGSTOP)
    watch.request_stop(run, "cancel")
    wait_until(lambda: ended(run, watch))
    assert ending_of(run).outcome is Outcome.CANCELED


def test_a_time_out_is_enforced_when_the_supervisor_does_not(
    settings: Settings, runs: Runs, watch: Supervisors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "LATE", -settings.stop_grace)
    run = start(settings, runs, watch, paced(settings.data_dir / "never"), timeout=4)
    os.kill(supervisor_pid(run), signal.SIGSTOP)
    wait_until(lambda: ended(run, watch))
    assert ending_of(run).outcome is Outcome.TIMEOUT


def test_supervisors_outlive_a_fork_server_that_is_killed_and_the_next_start_makes_a_new_one(
    settings: Settings, runs: Runs, watch: Supervisors
) -> None:
    gate = Path(settings.data_dir / "gate")
    first = start(settings, runs, watch, paced(gate, tasks=1))
    server = Path(f"/proc/{supervisor_pid(first)}/stat").read_text().rsplit(")", 1)[1].split()[1]
    os.kill(int(server), signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{server}/cmdline").read_bytes())
    second = start(settings, runs, watch, paced(gate, tasks=1))
    assert first.directory.is_alive()
    gate.touch()
    for run in (first, second):
        wait_until(lambda run=run: ended(run, watch), timeout=60)  # type: ignore[misc]
        assert ending_of(run).outcome is Outcome.SUCCESSFUL


def test_a_fork_server_that_is_killed_while_it_starts_costs_no_run(
    settings: Settings, runs: Runs, watch: Supervisors
) -> None:
    killed: list[int] = []

    def starting() -> list[int]:
        pids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
        return [
            pid
            for pid in pids
            if {"workers.preload", str(settings.data_dir)} <= set(command_line(pid))
        ]

    def kill_the_first() -> None:
        killed.extend(wait_until(starting))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    run = start(settings, runs, watch, paced(settings.data_dir / "never", tasks=1))
    killer.join()
    assert killed
    assert run.directory.is_alive()
