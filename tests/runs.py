"""Runs of real playbooks in their run directories, without agent, database or broker."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher import clock, processes
from tests.waiting import wait_until
from workers import lease_file
from workers.fork_server import ForkServer
from workers.outcome import Decided, decide
from workers.playbook_command import RUN_VARIABLE
from workers.run_dir import JobSpec, Result, RunDir
from workers.spool import COLUMNS, SpoolReader

LOCAL = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}


def event_of(line: bytes) -> dict[str, Any]:
    """The columns of a spooled COPY line, ``event_data`` as an object."""
    values = [
        re.sub(r"\\(.)", lambda found: _ESCAPES[found[1]], value)
        for value in line.decode().removesuffix("\n").split("\t")
    ]
    event: dict[str, Any] = dict(zip(COLUMNS, values, strict=True))
    event |= {name: int(event[name]) for name in ("counter", "start_line", "end_line")}
    flags = ("failed", "changed", "sanitized", "truncated")
    event |= {name: event[name] == "t" for name in flags}
    event["event_data"] = json.loads(event["event_data"])
    return event


@dataclass
class Run:
    """One started run."""

    run_dir: RunDir
    pid: int

    def wait(self, timeout: float = 40) -> Result:
        """The result, once the supervisor has ended."""
        what = f"a result of {self.run_dir.path}"
        wait_until(self.is_over, timeout=timeout, what=what)
        result = self.run_dir.read_result()
        assert result is not None, self.run_dir.log.read_text()
        assert self.run_dir.log.read_text() == ""
        return result

    def is_over(self) -> bool:
        return self.run_dir.is_started() and not self.run_dir.is_alive()

    def decided(self) -> Decided:
        result = self.wait()
        return decide(result.evidence, result.tolerances)

    def events(self) -> list[dict[str, Any]]:
        reader, lines, offset = SpoolReader(self.run_dir.spool), [], 0
        while (batch := reader.read(offset)).lines:
            lines += batch.lines
            offset = batch.next_offset
        return [event_of(line) for line in lines]

    def stdout(self) -> str:
        shown = (e["stdout"] + "\n" for e in self.events() if e["end_line"] > e["start_line"])
        return re.sub(r"\x1b\[[0-9;]*m|\r", "", "".join(shown))

    def shows(self, text: str) -> None:
        """Wait until the run has written something."""
        wait_until(lambda: text in self.stdout(), timeout=40, what=f"{text!r} in the output")

    def processes(self) -> list[int]:
        """Whatever of the playbook is alive: descendants, and by their environment."""
        mark = f"{RUN_VARIABLE}={self.run_dir.dispatch_id}".encode()
        found = {each.pid for each in processes.descendants(self.pid)}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.add(int(name))
            except OSError:
                continue
        return sorted(pid for pid in found if (p := processes.read(pid)) and p.state not in "ZX")


class Runs:
    """Starts runs on one fork server."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.lease = lease_file.lease_path(data_dir)
        lease_file.write(self.lease, clock.boottime() + 1000)
        self.server = ForkServer.start(data_dir, "n1")
        self._starting = threading.Lock()

    def prepare(self, files: Mapping[str, str | bytes], **changes: Any) -> RunDir:
        """A run directory with its project and job; nothing started."""
        run_dir = RunDir.create(self.data_dir, str(uuid.uuid4()))
        for name, content in files.items():
            path = run_dir.project / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        spec = JobSpec(
            job_id=1,
            dispatch_id=run_dir.dispatch_id,
            node="n1",
            lease_file=str(self.lease),
            playbook="site.yml",
            inventory=f"localhost {LOCAL}\n",
        )
        run_dir.write_job(dataclasses.replace(spec, **changes))
        return run_dir

    def start(self, files: Mapping[str, str | bytes] | str, **changes: Any) -> Run:
        """Start a run; a text is the tasks of a play on all hosts."""
        if isinstance(files, str):
            indented = "\n".join("    " + line for line in files.strip("\n").split("\n"))
            files = {"site.yml": f"- hosts: all\n  gather_facts: false\n  tasks:\n{indented}\n"}
        run_dir = self.prepare(files, **changes)
        with self._starting:
            return Run(run_dir, self.server.start_supervisor(run_dir.path))
