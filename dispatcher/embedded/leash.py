"""Become another program that is told when its parent dies. Run by path, before anything is imported.

    python -I -S leash.py <parent pid> <signal> <uid> <gid> -- <program> <argument>…

A program of its own instead of ``preexec_fn``: nothing runs between fork and exec in a process
with threads. The order matters: a change of account clears the parent-death signal, and a parent
that died before it was set would never be noticed (docs/protocols.md 4.6).
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Drop to the account (-1: stay), tie this process to its parent, execute the program."""
    parent, death_signal, uid, gid = (int(word) for word in sys.argv[1:5])
    program = sys.argv[6:]
    if uid != -1:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        sys.exit("the parent is gone")
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
