"""The process tree of ``dispatcher up``: servers, then roles; kept running; stopped in order.

One thread. This process starts every other one directly, adopts what they orphan (so that nothing
is left when it stops), and describes them all in ``stack.json``.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from dispatcher import clock
from dispatcher import settings as settings_module
from dispatcher.embedded.first_start import prepare
from dispatcher.embedded.left_overs import stop_left_overs
from dispatcher.embedded.ports import choose_port, url_of
from dispatcher.embedded.processes import ProcessMark, reap_adopted
from dispatcher.embedded.role_process import RoleProcess, keep_small
from dispatcher.embedded.roles import Role, standard_roles
from dispatcher.embedded.server import ServerProcess
from dispatcher.embedded.servers import Servers
from dispatcher.embedded.state import StackState, UpLock, make_data_dir, running_stack
from dispatcher.errors import ConfigurationError
from dispatcher.processes import become_subreaper, descendants
from dispatcher.settings import Settings

_LOOK: Final = 0.1
#: Seconds until every role must have been ready once.
_READY: Final = 90.0
#: Seconds that roles have between SIGTERM and SIGKILL; the servers need up to 3 more.
_ROLES_STOP: Final = 5.5
#: Seconds in which a killed process must be gone; one that waits for a disk may need longer.
_REST_KILLED: Final = 5.0
_LOGS_LOOKED_AT: Final = 60.0

Roles = Callable[[Settings, str], Sequence[Role]]


class Stack:
    """Everything on one machine, on one data directory.

    Args:
        settings: a database or broker URL that is set is used instead of an embedded server.
        say: takes one line for whoever watches.
        roles: which roles are run; from the settings that they share and the API's URL.
    """

    def __init__(
        self, settings: Settings, *, say: Callable[[str], None], roles: Roles = standard_roles
    ) -> None:
        self._settings = settings
        self._say = say
        self._make_roles = roles
        self._directory = settings.data_dir
        self._logs = settings.data_dir / "logs"
        self._stop = threading.Event()
        self._signals = 0
        self._servers = Servers(settings, self._logs, say=say, canceled=self._stop.is_set)
        self._roles: list[RoleProcess] = []
        self._state: StackState | None = None

    def run(self) -> None:
        """Start everything, keep it running until SIGINT, SIGTERM or SIGHUP, stop everything.

        Raises:
            ConfigurationError: the machine or a setting is not fit, or a stack runs already.
        """
        make_data_dir(self._directory)
        lock = UpLock(self._directory)
        if not lock.take():
            raise ConfigurationError(self._words_about_the_other(lock))
        try:
            self._catch_signals()
            become_subreaper()
            try:
                self._start()
                self._keep_running()
            except ConfigurationError:
                if not self._stop.is_set():
                    raise
            finally:
                self._stop_everything()
        finally:
            lock.release()

    # -- start

    def _words_about_the_other(self, lock: UpLock) -> str:
        other = running_stack(self._directory)
        at = f", API at {other.api_url}" if other and other.api_url else ""
        return (
            f"dispatcher up runs already on {self._directory} (pid {lock.holder()}{at});"
            " dispatcher down stops it"
        )

    def _catch_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:
        self._signals += 1
        self._stop.set()

    def _start(self) -> None:
        earlier = StackState.read(self._directory)
        if earlier is not None:
            left = stop_left_overs(earlier, self._directory)
            if left:
                self._say(f"ended what an earlier stack had left behind: {', '.join(left)}")
        mark = ProcessMark.of(os.getpid())
        assert mark is not None
        key_file = self._settings.key_file or self._directory / "cluster.key"
        token_file = self._directory / "token"
        started = clock.now().isoformat(timespec="seconds")
        self._describe(StackState(mark, "starting", started, key_file, token_file))
        shared = self._servers.start()
        self._describe(database_url=shared.database_url, broker_url=shared.broker_url)
        prepare(shared, key_file=key_file, token_file=token_file)
        port = choose_port(self._settings)
        shared = shared.model_copy(update={"api_port": port, "key_file": key_file})
        self._start_roles(shared, url_of(self._settings.api_host, port))
        self._wait_ready()

    def _start_roles(self, shared: Settings, api_url: str) -> None:
        for role in self._make_roles(shared, api_url):
            role.settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            process = RoleProcess(
                role,
                log=self._logs / f"{role.name}.log",
                environment=_environment(role.settings),
                directory=_working_directory(),
            )
            self._roles.append(process)
            if not self._stop.is_set():
                process.start()
        self._describe(api_url=api_url)

    def _wait_ready(self) -> None:
        deadline = clock.monotonic() + _READY
        while late := [role for role in self._roles if role.state != "ready"]:
            self._look_after()
            for role in late:
                if role.refused:
                    raise ConfigurationError(f"{role.role.name}: {role.last_words()}")
            if clock.monotonic() > deadline:
                raise ConfigurationError(
                    f"{late[0].role.name} was not ready within {_READY:.0f} s:"
                    f" {late[0].last_words()}"
                )
            if self._stop.wait(_LOOK):
                return
        state = self._describe(phase="ready")
        self._say(f"ready: API at {state.api_url}, token in {state.token_file}")
        self._say(f"logs in {self._logs}; Ctrl-C or `dispatcher down` stops it")

    # -- run

    def _keep_running(self) -> None:
        logs_due = clock.monotonic() + _LOGS_LOOKED_AT
        while not self._stop.wait(_LOOK):
            self._look_after()
            if clock.monotonic() >= logs_due:
                logs_due = clock.monotonic() + _LOGS_LOOKED_AT
                for log in self._logs.glob("*.log"):
                    keep_small(log)

    def _look_after(self) -> None:
        """Start again what has ended, and describe what is."""
        self._servers.look()
        for role in self._roles:
            said = role.look()
            if said:
                self._say(said)
        self._reap()
        self._describe()

    # -- stop

    def _stop_everything(self) -> None:
        """Roles first, while the servers still take what they have to write; then the servers."""
        if self._state is not None:
            self._describe(phase="stopping")
        for role in self._roles:
            role.send(signal.SIGTERM)
        deadline = clock.monotonic() + _ROLES_STOP
        # another Ctrl-C than the one that stopped it: no more patience
        enough = 2 if self._stop.is_set() else 1
        while any(role.running() for role in self._roles):
            if clock.monotonic() > deadline or self._signals >= enough:
                break
            clock.sleep(0.02)
        try:
            self._kill_the_rest()
        finally:
            self._servers.stop()
        self._reap()
        if self._state is not None:
            (self._directory / "stack.json").unlink(missing_ok=True)
            self._say("stopped")

    def _kill_the_rest(self) -> None:
        """Kill whatever is left below this process, servers excepted, until nothing is."""
        for role in self._roles:
            if role.running():
                self._say(f"{role.role.name} does not end; it is killed")
        deadline = clock.monotonic() + _REST_KILLED
        while left := {each.pid for each in descendants(os.getpid())} - self._servers.pids():
            # all before one is waited for: hundreds of them keep a machine busy
            for pid in left:
                if (found := ProcessMark.of(pid)) is not None:
                    found.stop([(signal.SIGKILL, 0.0)])
            self._reap()
            if clock.monotonic() > deadline:
                self._say(f"{len(left)} processes below it cannot be killed")
                return
            clock.sleep(0.02)

    def _reap(self) -> None:
        """Reap orphans that came to this process, after a look at its own children."""
        own: list[ServerProcess | RoleProcess] = [*self._servers.processes(), *self._roles]
        reap_adopted({process.pid for process in own if process.running()})

    # -- describe

    def _describe(self, state: StackState | None = None, **changes: Any) -> StackState:
        """Write ``stack.json`` when it says something new; what it says."""
        state = state or self._state
        assert state is not None
        processes = (*self._servers.describe(), *(role.describe() for role in self._roles))
        state = replace(state, processes=processes, **changes)
        if state != self._state:
            self._state = state
            try:
                state.write(self._directory)
            except OSError as error:  # a full disk: what runs goes on, and can be stopped
                self._say(f"stack.json cannot be written: {error.strerror}")
        return state


def _environment(settings: Settings) -> dict[str, str]:
    """What a role gets: this process's variables, and settings in place of those among them.

    The command line's own token and URL are not for roles, nor for the playbooks below them.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(settings_module.PREFIX)
    }
    given = settings_module.environment(settings.model_copy(update={"url": None, "token": None}))
    return inherited | given


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")
