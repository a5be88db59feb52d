"""The fork server's process: ``python -m workers.preload <control socket> <node> <data_dir>``.

Imports what every supervisor needs, once, and forks one for each request. It supervises nothing:
when the control socket closes it ends, and the supervisors are nobody's children but go on.
ansible-core is never imported here.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import shutil
import socket
import sys
from pathlib import Path

from workers.playbook_command import playbook_path
from workers.supervisor import run_in_fork


class Preloaded:
    """Answers the agent on one socket."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)

    def serve(self) -> None:
        """Fork on request, tell of ends; return when the agent is gone."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._control:
                    self._tell_end(key.fd, key.data)
                    continue
                request = self._request()
                if request is None:
                    return
                self._fork(request)

    def _request(self) -> Path | None:
        """The run directory to start a supervisor for; None when the agent is gone."""
        try:
            raw = self._control.recv(64 << 10)
        except ConnectionResetError:  # it left answers unread
            return None
        return Path(json.loads(raw)["start"]) if raw else None

    def _fork(self, run_dir: Path) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            self._send({"error": f"fork: {error.strerror}"})
            return
        if pid == 0:
            run_in_fork(run_dir)
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
        self._send({"started": pid})

    def _tell_end(self, descriptor: int, pid: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        self._send({"exit": pid, "status": status})

    def _send(self, message: dict[str, object]) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except OSError:
            pass  # the agent is gone: the next read says so


def main() -> None:
    """Say that everything is imported, then serve."""
    control = socket.socket(fileno=int(sys.argv[1]))
    if shutil.which("ansible-playbook", path=playbook_path()) is None:
        message: dict[str, object] = {"error": f"no ansible-playbook on {playbook_path()}"}
    else:
        message = {"ready": os.getpid()}
    control.send(json.dumps(message).encode())
    # what is alive now is never looked at by the collector again: forks share its pages
    gc.collect()
    gc.freeze()
    Preloaded(control).serve()


if __name__ == "__main__":
    main()
