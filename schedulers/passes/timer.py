"""Control's timer: triggers managers whose last completed pass is too long ago.

By the database's clock, so that no clock of a machine matters (docs/protocols.md 1.5). By message;
when the broker refuses it, or nobody takes it, by a pass in a short child process: jobs are started
even while the broker is away.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from dispatcher import clock, logs
from dispatcher.broker.celery_app import make_app
from dispatcher.broker.messages import Manager
from dispatcher.broker.publish import Publisher
from dispatcher.db.clock_difference import measure_clock
from dispatcher.db.engine import make_engine, transaction
from dispatcher.db.schema_check import SchemaWatch
from dispatcher.errors import ConfigurationError
from dispatcher.health import Health
from dispatcher.settings import Settings
from schedulers.passes.start import first_line
from schedulers.passes.works import period

log = logs.get(__name__)

#: Periods without a completed pass after which a manager is triggered by message.
PERIODS_TO_TRIGGER: Final = 3
#: Periods after which its messages evidently reach nobody.
PERIODS_TO_RUN: Final = 6
#: Seconds between two looks, at most.
LOOK_EVERY: Final = 1.0
#: Seconds that a pass without a message has to end when control ends.
CHILD_ENDS_WITHIN: Final = 2.0
#: Seconds between two looks at the broker.
BROKER_EVERY: Final = 5.0


@dataclass(frozen=True)
class Overdue:
    """How long ago a manager's last completed pass was; infinite: never."""

    manager: Manager
    age: float


class Timer:
    """The loop of the timer's process; one database connection.

    Args:
        settings: periods, and what a pass needs.
        stopping: whether the process was told to end.
        unfit: called when control must end: its port is taken, or the schema needs newer code.
    """

    def __init__(
        self,
        settings: Settings,
        stopping: Callable[[], bool],
        unfit: Callable[[ConfigurationError], None],
    ) -> None:
        self._settings = settings
        self._stopping = stopping
        self._unfit = unfit
        self._schema = SchemaWatch()
        self._engine = make_engine(settings, application_name="dispatcher control timer")
        self._publisher = Publisher(make_app(settings, profile="publisher"))
        self._health = Health(settings, "control")
        self._child: subprocess.Popen[bytes] | None = None
        self._child_started = 0.0
        self._broker_answers = True
        self._broker_due = 0.0
        self._triggered: dict[Manager, float] = {}

    def run(self) -> int:
        """Look again and again until the process is told to end; the exit code."""
        shortest = min(self._settings.manager_period, self._settings.recovery_period)
        try:
            port = self._health.serve(self._settings.control_metrics_port)
            if port:
                log.info("serving health and metrics", port=port)
            while not self._stopping():
                self.look()
                clock.sleep(min(LOOK_EVERY, shortest / 2))
        except ConfigurationError as error:
            self._unfit(error)
        if self._child is not None:
            self._end_child(self._child)
        self._health.close()
        return 0

    @staticmethod
    def _end_child(child: subprocess.Popen[bytes]) -> None:
        """End it after the window in hand, or without that when it takes too long."""
        child.terminate()
        try:
            child.wait(timeout=CHILD_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def look(self) -> None:
        """One look: health, schema, overdue managers, triggers.

        Raises:
            SchemaError: the schema needs newer code than this.
        """
        missing: dict[str, str] = {}
        self._look_at_broker()
        if not self._broker_answers:
            missing["broker"] = "not reachable"
        try:
            with transaction(self._engine) as connection:
                self._schema.look(connection)
                measure_clock(connection)
                late = overdue(connection)
        except DBAPIError as error:
            missing["database"] = "not reachable"
            if "database" not in self._health.reasons():
                log.warning("the database is away", error=first_line(error))
            late = []
        self._health.say(missing)
        self._trigger(late)

    def _look_at_broker(self) -> None:
        if clock.monotonic() >= self._broker_due:
            self._broker_answers = self._publisher.warm()
            self._broker_due = clock.monotonic() + BROKER_EVERY

    def _trigger(self, late: Collection[Overdue]) -> None:
        to_run = [found.manager for found in late if self._needs_a_child(found)]
        if to_run:
            self._run(to_run)

    def _needs_a_child(self, found: Overdue) -> bool:
        """Trigger a late manager by message; whether its pass must be run without one."""
        periods = found.age / period(self._settings, found.manager)
        if not self._broker_answers:
            return periods >= 1
        if periods >= PERIODS_TO_RUN and self._was_triggered(found.manager):
            return True
        return periods >= PERIODS_TO_TRIGGER and not self._send(found.manager)

    def _send(self, manager: Manager) -> bool:
        """Trigger by message, at most once in a period; false when the broker failed."""
        now = clock.monotonic()
        if now - self._triggered.get(manager, -1e9) < period(self._settings, manager):
            return True
        self._triggered[manager] = now
        if not self._publisher.trigger(manager, "timer"):
            self._broker_answers = False
            return False
        return True

    def _was_triggered(self, manager: Manager) -> bool:
        """Whether a message was sent long enough ago to have been taken."""
        sent = self._triggered.get(manager)
        return sent is not None and clock.monotonic() - sent >= period(self._settings, manager)

    def _run(self, managers: Collection[Manager]) -> None:
        """Run passes in a child process, one child at a time: it has a connection of its own."""
        if self._child is not None and self._child.poll() is None:
            limit = self._settings.manager_timeout + self._settings.manager_grace
            if clock.monotonic() - self._child_started < limit:
                return
            self._child.kill()
            self._child.wait()
        if self._broker_answers:
            log.warning("nobody takes the triggers", managers=sorted(managers))
        self._child_started = clock.monotonic()
        self._child = subprocess.Popen(
            pass_command(managers),
            # each short process would leave a set of files in the directory that control shares
            env={k: v for k, v in os.environ.items() if k != "PROMETHEUS_MULTIPROC_DIR"},
            stdin=subprocess.DEVNULL,
        )


def pass_command(managers: Collection[Manager]) -> list[str]:
    """How passes are run in a process of their own, with this interpreter.

    Where it was told not to import from the working directory, so is the child.
    """
    safe = ["-P"] if sys.flags.safe_path else []
    return [sys.executable, *safe, "-m", "schedulers.passes.app", "pass", *managers]


def overdue(connection: Connection) -> list[Overdue]:
    """The age of every manager's last pass, without those that are at work just now."""
    rows = connection.execute(
        text(
            "SELECT manager, EXTRACT(epoch FROM dispatcher_now() - last_pass_at)::float8 AS age"
            " FROM manager_lease WHERE manager = ANY(:managers)"
            " AND (holder IS NULL OR expires_at <= dispatcher_now()) ORDER BY last_pass_at NULLS FIRST"
        ),
        {"managers": [str(manager) for manager in Manager]},
    )
    return [
        Overdue(Manager(row.manager), float("inf") if row.age is None else row.age) for row in rows
    ]
