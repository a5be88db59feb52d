"""An update on its terminal: the child, its environment, and its lines as ``verbose`` events."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import workers
from dispatcher.domain.credential import OF_SOURCES
from workers import inventory_fault, playbook_command
from workers.playbook_command import CannotStart
from workers.pty_child import Hooks, PtyChild
from workers.run_dir import JobSpec, RunDir
from workers.update_files import UpdateFiles
from workers.wrapper import Board

_PYTHON = sys.executable
#: Characters of output in which the reason of a failure is looked for.
_TAIL = 256 << 10


def run_update(
    run_dir: RunDir,
    spec: JobSpec,
    inherited: Mapping[str, str],
    *,
    board: Board,
    hooks: Hooks,
    on_child: Callable[[PtyChild], None],
    on_event: Callable[[Mapping[str, Any]], None],
) -> dict[str, Any]:
    """Run an update to its end, in the calling thread, which must be the main one.

    Returns:
        What was found; ``error`` and ``stage`` when it failed.

    Raises:
        CannotStart: the job names what is not there.
        OSError: a file cannot be written.
    """
    UpdateFiles(run_dir).make()
    environment = playbook_command.prepare_private(run_dir, spec, inherited)
    if spec.kind == "project_update":
        command = [_PYTHON, "-P", "-m", "workers.project_update", str(run_dir.path)]
        environment["PYTHONPATH"] = str(Path(workers.__path__[0]).parent)
        directory = run_dir.private
    elif spec.kind == "inventory_update":
        command = _listing_command(run_dir, spec)
        environment |= playbook_command.log_in(
            run_dir, spec, environment, usable=OF_SOURCES
        ).environment
        environment["ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED"] = "1"
        directory = run_dir.project
    else:
        raise CannotStart("internal", f"a job of kind {spec.kind} cannot be run by this node")
    lines = _Lines(on_event)

    def output(text: str) -> None:
        hooks.output(text)
        lines.write(text)

    child = PtyChild(
        command[0],
        command[1:],
        cwd=str(directory),
        env=environment,
        lease_file=Path(spec.lease_file),
        board=board,
        hooks=Hooks(output, hooks.tick),
    )
    on_child(child)
    try:
        child.expect((), timeout=0)
    finally:
        child.close()
        lines.end()
    if spec.kind == "project_update":
        return UpdateFiles(run_dir).read_found()
    if board.main_status is None or not os.WIFEXITED(board.main_status) or not board.main_status:
        return {}
    return {"stage": "inventory", "error": inventory_fault.explain(lines.tail, run_dir.project)}


def _listing_command(run_dir: RunDir, spec: JobSpec) -> list[str]:
    """``--export`` leaves the variables of groups with the groups."""
    source = playbook_command.inventory_in_project(run_dir, spec)
    listing = UpdateFiles(run_dir).listing
    program = str(Path(_PYTHON).parent / "ansible-inventory")
    return [program, "--list", "--export", f"--output={listing}", f"--inventory={source}"]


class _Lines:
    """Output, line by line, as events."""

    def __init__(self, on_event: Callable[[Mapping[str, Any]], None]) -> None:
        self._on_event = on_event
        self._rest = ""
        self.tail = ""

    def write(self, text: str) -> None:
        """Some text, from anywhere in a line to anywhere in a line."""
        self.tail = (self.tail + text)[-_TAIL:]
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            self._line(line.removesuffix("\r"))

    def end(self) -> None:
        """What is left is a line too."""
        if self._rest:
            self._line(self._rest)
            self._rest = ""

    def _line(self, line: str) -> None:
        self._on_event({"event": "verbose", "stdout": line, "start_line": 0, "end_line": 1})
