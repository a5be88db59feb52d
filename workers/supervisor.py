"""One run from its claimed directory to ``result.json``; one process for each, from the fork server.

Knows no database and no broker: what it is told and what it tells is in the run directory. It ends
only when no descendant is left, and writes the result last.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dispatcher import clock, processes
from dispatcher.errors import RunDirectoryError
from workers import process_tree, runner
from workers.events import CleanEvent, EventStream, storable
from workers.findings import Findings
from workers.last_words import print_fault
from workers.masking import Masker, secret_values
from workers.outcome import Evidence, decide
from workers.playbook_command import CannotStart, prepare
from workers.pty_child import Hooks
from workers.run_dir import JobSpec, Result, RunDir, SupervisorRecord
from workers.spool import SpoolError, SpoolWriter
from workers.update_run import run_update
from workers.watch import Watch
from workers.wrapper import Board

#: Exit codes: the result is written; another had started, or decided about, this run; no result.
FINISHED, NOT_OURS, NO_RESULT = 0, 3, 4
#: Bytes set aside, so that a full disk leaves room for the last event and the result.
RESERVE = 512 << 10


def main(path: Path) -> int:
    """Make this fork a supervisor, and supervise. Returns the exit code."""
    os.umask(0o077)
    os.setsid()
    run_dir = RunDir(path)
    _redirect(run_dir)
    processes.become_subreaper()
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGCHLD})
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # held before the right to start is won: a started run without a live supervisor is a dead one
    alive = run_dir.hold_alive()
    if alive is None or not run_dir.take_start():
        return NOT_OURS
    try:
        Supervision(run_dir, alive).run()
    except Exception:
        print_fault()
        process_tree.sweep(grace=0)
        return NO_RESULT
    return FINISHED


def _redirect(run_dir: RunDir) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    log = os.open(run_dir.log, flags, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    process_tree.close_inherited()


class Supervision:
    """One run.

    Args:
        alive: the locked descriptor of ``alive``.
    """

    def __init__(self, run_dir: RunDir, alive: int) -> None:
        self._run_dir, self._alive = run_dir, alive
        self._started = clock.now()
        self._started_at = clock.boottime()
        self._board = Board()
        self._fault: tuple[str, str] = ("", "")
        self._found: dict[str, Any] = {}
        self._status = ""
        self._spooled = 0
        self._spool_failed = False
        self._survivors = 0

    def run(self) -> None:
        """Play, clean up, write the result.

        Raises:
            RunDirectoryError: nothing can be written.
        """
        self._introduce()
        try:
            spec = self._run_dir.read_job()
        except RunDirectoryError as error:
            spec = JobSpec(0, self._run_dir.dispatch_id, "", "", "")
            self._fault = ("internal", str(error))
        self._masker = Masker([*secret_values(spec.secret_vars), *spec.masked])
        self._stream = EventStream(self._masker)
        self._findings = Findings(str(self._run_dir.project))
        self._spool = SpoolWriter(self._run_dir.spool)
        self._watch = Watch(
            self._run_dir,
            spec,
            self._board,
            alive=self._alive,
            started_at=self._started_at,
            spooled=lambda: self._spool.offset,
        )
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, lambda *_: self._watch.shut_down())
        if not self._fault[0]:
            self._play(spec)
        swept = process_tree.sweep(grace=0)
        self._watch.killed.update(swept.killed)
        self._survivors = len(swept.survivors)
        self._finish(spec)

    def _introduce(self) -> None:
        pid = os.getpid()
        start = processes.start_of(pid) or 0
        record = SupervisorRecord(pid, start, clock.boot_id(), self._started_at)
        self._run_dir.write_supervisor(record)
        descriptor = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(descriptor, 0, RESERVE)
        os.close(descriptor)

    @property
    def _reserve(self) -> Path:
        return self._run_dir.path / "reserve"

    def _play(self, spec: JobSpec) -> None:
        try:
            self._watch.tick()
            if spec.kind != "playbook":
                self._update(spec)
                return
            command = prepare(self._run_dir, spec, dict(os.environ))
            self._watch.tick()
            if self._watch.stop is not None:
                return
            if spec.inventory_path is not None:
                # a script may take its time, or hang, before ansible-playbook says a word
                words = f"[dispatcher] reading the inventory {spec.inventory_path}"
                self._append(self._stream.note("verbose", words))
            played = runner.play(
                command,
                self._run_dir,
                lease_file=Path(spec.lease_file),
                board=self._board,
                hooks=Hooks(self._watch.output, self._watch.tick),
                on_child=self._watch.attach,
                on_event=self._take,
            )
            self._status = played.status
        except CannotStart as error:
            self._fault = (error.stage, str(error))
        except Exception as error:
            print_fault()
            self._fault = ("internal", f"{type(error).__name__}: {error}")

    def _update(self, spec: JobSpec) -> None:
        """An update instead of a playbook: another program, the same watch and events."""
        self._found = run_update(
            self._run_dir,
            spec,
            dict(os.environ),
            board=self._board,
            hooks=Hooks(self._watch.output, self._watch.tick),
            on_child=self._watch.attach,
            on_event=self._take,
        )
        if "error" in self._found and self._watch.stop is None:
            self._fault = (str(self._found.get("stage", "project")), str(self._found["error"]))

    # -- events

    def _take(self, raw: Mapping[str, Any]) -> None:
        """Spool one event of ansible-runner."""
        try:
            event = self._stream.convert(raw)
        except Exception as error:
            print_fault()
            bare = {name: raw.get(name) for name in ("event", "stdout", "start_line", "end_line")}
            unreadable = {"_unreadable": f"{type(error).__name__}: {error}"}
            event = self._stream.convert({**bare, "event_data": unreadable})
        self._append(event)
        self._findings.add(event)
        if event.row.event == "playbook_on_vars_prompt":
            self._watch.asked(str(event.data.get("prompt") or event.data.get("varname") or ""))

    def _append(self, event: CleanEvent) -> None:
        if self._spool_failed:
            return  # it ends where it could not be written
        try:
            self._spool.append_event(event.row)
            self._spooled += 1
        except SpoolError as error:
            self._spool_failed = True
            self._fault = ("internal", str(error))
            self._watch.spool_failed()
            print_fault()

    # -- the end

    def _finish(self, spec: JobSpec) -> None:
        evidence = replace(self._evidence(), kind=spec.kind)
        self._reserve.unlink(missing_ok=True)
        wrong = bool(evidence.fault_stage or evidence.survivors)
        if evidence.stop or wrong or evidence.detached:
            words = decide(evidence, spec.tolerances).explanation
            name = "error" if wrong and not evidence.stop else "system_warning"
            self._append(self._stream.note(name, f"[dispatcher] {words}"))
        try:
            self._spool.end(self._spooled)
        except SpoolError:
            print_fault()
        try:
            self._run_dir.wipe_secrets(keep_update=True)
        except (OSError, RunDirectoryError):
            print_fault()  # the agent tries again, before the job is final
        self._run_dir.write_result(
            Result(
                job_id=spec.job_id,
                dispatch_id=spec.dispatch_id,
                evidence=evidence,
                tolerances=spec.tolerances,
                artifacts=self._findings.artifacts,
                events_total=self._spooled,
                spool_bytes=self._spool.offset,
                started=self._started.isoformat(),
                finished=clock.now().isoformat(),
                update=self._found,
            )
        )

    def _evidence(self) -> Evidence:
        status = self._board.main_status
        code = None if status is None else os.waitstatus_to_exitcode(status)
        findings, error = self._findings, self._findings.error
        stage, fault = self._fault
        stop = self._watch.stop
        if stop is None and self._board.fenced:
            stop = "fenced"
        return Evidence(
            stop=stop,
            fault_stage=stage,
            fault=storable(self._masker.text(fault)),
            rc=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else 0,
            runner_status=self._status,
            stats=findings.stats,
            plays=findings.plays,
            plays_without_hosts=findings.plays_without_hosts,
            error=error.text,
            error_file=error.file,
            error_line=error.line,
            error_column=error.column,
            prompt=storable(self._masker.text(self._watch.prompt)),
            killed=len(self._watch.killed | self._board.killed),
            survivors=self._survivors,
            detached=findings.detached,
        )


def run_in_fork(path: Path) -> None:
    """Called in a fork of the fork server: never returns."""
    code = NO_RESULT
    try:
        code = main(path)
    except BaseException:
        print_fault()
    finally:
        os._exit(code)
