"""``dispatcher up`` with small roles in place of the real ones, run as a program by the stack's tests.

    python small_stack.py <role>…

Settings come from ``DISPATCHER_*`` as always. A role is a word of :data:`PROGRAMS`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dispatcher import settings as settings_module
from dispatcher.cli.exit_codes import of_error
from dispatcher.embedded.roles import Role
from dispatcher.embedded.stack import Stack
from dispatcher.errors import DispatcherError
from dispatcher.settings import Settings

_HEAD = """
import os, signal, subprocess, sys
from pathlib import Path
here = Path(os.environ["DISPATCHER_DATA_DIR"])
def ready():
    (here / f"{name}.environ").write_text("\\n".join(f"{k}={v}" for k, v in os.environ.items()))
    (here / f"{name}.ready").write_text(str(os.getpid()))
"""
PROGRAMS = {
    # ends as it should
    "good": "ready(); signal.sigwait({signal.SIGTERM})",
    # has to be killed, and has a child in a session of its own that it does not look after
    "stubborn": """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "300"], start_new_session=True)
(here / "orphan").write_text(str(child.pid))
other = subprocess.Popen(["sleep", "300"])
(here / "sibling").write_text(str(other.pid))
ready()
while True: signal.pause()
""",
    # does not like its settings
    "refusing": "print('DISPATCHER_FOO: is not to my liking', flush=True); sys.exit(2)",
    # fails at first, then runs
    "shaky": """
tries = here / "tries"
count = int(tries.read_text()) + 1 if tries.exists() else 1
tries.write_text(str(count))
if count < 3: sys.exit("not yet")
ready(); signal.sigwait({signal.SIGTERM})
""",
}


def small_roles(names: Sequence[str], settings: Settings) -> list[Role]:
    """A role for each name."""

    def ready(name: str, pid: int) -> bool:
        said = settings.data_dir / f"{name}.ready"
        return said.exists() and said.read_text() == str(pid)

    return [
        Role(
            name,
            ("-c", f"name = {name!r}\n{_HEAD}\n{PROGRAMS[name]}"),
            settings,
            lambda pid, name=name: ready(name, pid),
        )
        for name in names
    ]


def main() -> None:
    names = sys.argv[1:]
    try:
        Stack(
            settings_module.load(),
            say=lambda line: print(line, file=sys.stderr, flush=True),
            roles=lambda settings, url: small_roles(names, settings),
        ).run()
    except DispatcherError as error:
        print(error, file=sys.stderr)
        sys.exit(of_error(error))


if __name__ == "__main__":
    assert Path(os.environ["DISPATCHER_DATA_DIR"]).is_absolute()
    main()
