"""The stack without a terminal: started in the background, and stopped from another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from dispatcher import clock
from dispatcher import settings as settings_module
from dispatcher.embedded.left_overs import stop_left_overs
from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.embedded.processes import ProcessMark
from dispatcher.embedded.state import StackState, UpLock, make_data_dir, running_stack
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings

#: Run by name: the command line imports this package, not the other way round.
_UP: Final = ("-P", "-m", "dispatcher.cli.main", "up")
_LOOK: Final = 0.05
#: Signals that end ``dispatcher up``; it needs less than 10 s itself.
_STOP: Final = ((signal.SIGTERM, 20.0), (signal.SIGKILL, 5.0))


def start_in_background(settings: Settings) -> StackState:
    """Start ``dispatcher up`` as a process of its own, and wait until it is ready.

    Whoever is interrupted while waiting leaves no stack behind.

    Raises:
        ConfigurationError: it ended before; with its last words.
    """
    make_data_dir(settings.data_dir)
    log = settings.data_dir / "logs" / "up.log"
    with log.open("ab") as output:
        said_before = output.tell()
        process = subprocess.Popen(
            [sys.executable, *_UP],
            env=os.environ | settings_module.environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        while process.poll() is None:
            state = running_stack(settings.data_dir)
            if state is not None and state.up.pid == process.pid and state.phase == "ready":
                return state
            clock.sleep(_LOOK)
    except BaseException:
        if (mark := ProcessMark.of(process.pid)) is not None:
            mark.stop(_STOP)
        raise
    with log.open("rb") as file:
        file.seek(said_before)
        lines = file.read().decode(errors="replace").splitlines()
    raise ConfigurationError(lines[-1] if lines else f"dispatcher up ended; see {log}")


def stop_stack(data_dir: Path) -> bool:
    """Stop the stack on a data directory, and what one that was killed had left behind.

    Returns:
        Whether anything ran.

    Raises:
        ConfigurationError: it does not end.
    """
    state = running_stack(data_dir)
    if state is not None and not state.up.stop(_STOP):
        raise ConfigurationError(f"dispatcher up (pid {state.up.pid}) does not end")
    return _stop_left_over_stack(data_dir) or state is not None


def _stop_left_over_stack(data_dir: Path) -> bool:
    earlier = StackState.read(data_dir)
    lock = UpLock(data_dir)
    if earlier is None or not lock.take():
        return False
    try:
        found = bool(stop_left_overs(earlier, data_dir))
        for server in (
            EmbeddedPostgres(data_dir / "postgres"),
            EmbeddedValkey(data_dir / "valkey"),
        ):
            found |= server.process.stop_left_over()
        (data_dir / "stack.json").unlink(missing_ok=True)
        return found
    finally:
        lock.release()
