"""The one importer of ansible_runner: drives one playbook and turns its strings into our types.

One run per process: ansible-runner reads ``os.environ`` and module state. Its time-outs, cancel,
signal handlers and files of events are not used; what takes the place of ``pexpect.spawn`` is in
:mod:`workers.pty_child`.
"""

from __future__ import annotations

import os
import shlex
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible_runner
from ansible_runner import runner as runner_module

from workers.playbook_command import PlaybookCommand
from workers.pty_child import Hooks, PtyChild
from workers.run_dir import RunDir
from workers.wrapper import Board

_IDENT = "run"
_pexpect = runner_module.pexpect


@dataclass(frozen=True)
class Played:
    """What ansible-runner says of a run.

    Attributes:
        status: ``successful``, ``failed`` …; less is known from it than from the evidence.
    """

    status: str


def play(
    command: PlaybookCommand,
    run_dir: RunDir,
    *,
    lease_file: Path,
    board: Board,
    hooks: Hooks,
    on_child: Callable[[PtyChild], None],
    on_event: Callable[[Mapping[str, Any]], None],
) -> Played:
    """Run the playbook to its end, in the calling thread, which must be the main one.

    Args:
        hooks: called between two reads of the output.
        on_child: told the process once it runs.
        on_event: must be quick, and raise nothing: the output waits meanwhile.

    Raises:
        FileNotFoundError: there is no ansible-playbook.
    """

    def spawn(name: str, args: list[str], *, cwd: str, env: Mapping[str, str], **_: Any) -> Any:
        child = PtyChild(
            name, args, cwd=cwd, env=env, lease_file=lease_file, board=board, hooks=hooks
        )
        on_child(child)
        return child

    def take(event: dict[str, Any]) -> bool:
        on_event(event)
        return False  # no file for it

    # of pexpect, ansible-runner's module uses these three names
    runner_module.pexpect = types.SimpleNamespace(
        spawn=spawn, EOF=_pexpect.EOF, exceptions=_pexpect.exceptions
    )
    os.environ.clear()
    os.environ.update(command.environment)
    ran = ansible_runner.run(
        private_data_dir=str(run_dir.private / "runner"),
        project_dir=str(run_dir.project),
        artifact_dir=str(run_dir.artifacts),
        ident=_IDENT,
        playbook=command.playbook,
        cmdline=shlex.join(command.options),
        suppress_env_files=True,
        fact_cache_type="",
        quiet=True,
        settings={"suppress_output_file": True},
        cancel_callback=lambda: False,
        event_handler=take,
    )
    return Played(str(ran.status))
