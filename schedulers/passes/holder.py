"""Who holds a lease: this process, named so that a sibling can see that it is gone."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass

from dispatcher import clock
from dispatcher.processes import start_of


@dataclass(frozen=True)
class Holder:
    """A process that holds a lease, or did.

    Attributes:
        id: random, made once for each process; two leases of one process have the same.
        host: host name and pid namespace: two containers may share a name, a kernel and pids.
        boot_id: the kernel's id of this boot.
        pid, pid_start: the process and its start time in clock ticks, so that a pid that was
            given away again is told apart.
    """

    id: uuid.UUID
    host: str
    boot_id: str
    pid: int
    pid_start: int

    @classmethod
    def of_this_process(cls) -> Holder:
        """A new holder; made after the last fork."""
        pid = os.getpid()
        return cls(uuid.uuid4(), _host(), clock.boot_id(), pid, start_of(pid) or 0)

    def sees_gone(self, other: Holder) -> bool:
        """Whether ``other`` ran on this machine and does not any more; false when in doubt."""
        if (other.host, other.boot_id) != (self.host, self.boot_id):
            return False
        return start_of(other.pid) != other.pid_start


def _host() -> str:
    return f"{socket.gethostname()}/{os.readlink('/proc/self/ns/pid')}"
