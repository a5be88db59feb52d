"""The agent's side of the fork server: a process that holds ansible-runner, imported once.

A supervisor forked from it costs milliseconds and shares its memory. The server ends when the
agent's end of the control socket closes, however the agent ended; supervisors live on. The process
itself is :mod:`workers.preload`; this module does not import ansible-runner.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

from dispatcher.errors import ConfigurationError, DispatcherError
from workers.playbook_command import PASSED_ON

#: Seconds for the server to import what it holds, and for a fork.
START_TIMEOUT, FORK_TIMEOUT = 60.0, 10.0
_MESSAGE = 64 << 10
#: What the server itself needs of the agent's environment; no URL, no token, no key.
_KEPT = (*PASSED_ON, "PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV")


class ForkServerGone(DispatcherError):
    """The fork server does not answer. Its supervisors live on; make a new one.

    Whether the last start took effect is seen in the run directory.
    """


class ForkServer:
    """A running fork server; :meth:`start` makes one."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process, self._control = process, control
        self._exits: deque[tuple[int, int]] = deque()

    @classmethod
    def start(cls, data_dir: Path, node: str) -> ForkServer:
        """Start the process and wait until it can fork.

        Args:
            data_dir, node: shown in the process list.

        Raises:
            ConfigurationError: it does not come up, or finds no ansible-playbook.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [
                    *([sys.executable, "-P"] if sys.flags.safe_path else [sys.executable]),
                    *("-m", "workers.preload", str(theirs.fileno()), node, str(data_dir)),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={name: os.environ[name] for name in _KEPT if name in os.environ}
                | {"PYTHONUTF8": "1"},
            )
        server = cls(process, ours)
        try:
            ready = server._receive(START_TIMEOUT)
        except ForkServerGone as error:
            server.close()
            raise ConfigurationError(f"the fork server does not start: {error}") from error
        if "error" in ready:
            server.close()
            raise ConfigurationError(str(ready["error"]))
        return server

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def fileno(self) -> int:
        """Readable when :meth:`poll_exits` has something to tell."""
        return self._control.fileno()

    def start_supervisor(self, run_dir: Path) -> int:
        """Fork a supervisor for a run directory; its pid.

        Raises:
            ForkServerGone: no answer.
        """
        try:
            self._control.settimeout(FORK_TIMEOUT)
            self._control.send(json.dumps({"start": str(run_dir)}).encode())
        except OSError as error:
            raise ForkServerGone(str(error)) from error
        while True:
            message = self._receive(FORK_TIMEOUT)
            if "started" in message:
                return int(message["started"])
            if "error" in message:
                raise ForkServerGone(str(message["error"]))
            self._exits.append((message["exit"], message["status"]))

    def poll_exits(self) -> list[tuple[int, int]]:
        """Supervisors that have ended since the last call: (pid, wait status). Never waits.

        Raises:
            ForkServerGone: the server has ended.
        """
        while True:
            try:
                message = self._receive(0)
            except TimeoutError:
                break
            except ForkServerGone:
                if not self._exits:
                    raise
                break
            self._exits.append((message["exit"], message["status"]))
        exits = list(self._exits)
        self._exits.clear()
        return exits

    def close(self) -> None:
        """End the server. Supervisors live on."""
        self._control.close()
        try:
            self._process.wait(FORK_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _receive(self, timeout: float) -> dict[str, Any]:
        self._control.settimeout(timeout)
        try:
            raw = self._control.recv(_MESSAGE)
        except BlockingIOError:
            raise TimeoutError from None
        except TimeoutError:
            raise ForkServerGone(f"no answer within {timeout:.0f} s") from None
        except OSError as error:
            raise ForkServerGone(str(error)) from error
        if not raw:
            raise ForkServerGone("it has ended")
        message: dict[str, Any] = json.loads(raw)
        return message
