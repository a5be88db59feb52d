"""The Celery worker of one manager: its queue, one slot, prefork for the hard time limit."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, Final

from celery import Celery, signals
from sqlalchemy.exc import DBAPIError

from dispatcher import clock, logs
from dispatcher.broker.celery_app import make_app, start_worker
from dispatcher.broker.messages import RUN_MANAGER, Manager, is_trigger, manager_queue
from dispatcher.db.engine import is_away
from dispatcher.errors import ConfigurationError, SchemaError
from dispatcher.metrics import MESSAGES_IGNORED
from dispatcher.processes import die_with_parent
from dispatcher.settings import Settings
from schedulers.passes.manager_pass import Runner
from schedulers.passes.start import first_line
from schedulers.passes.works import make_runner

log = logs.get(__name__)

#: Seconds between two passes of one manager. Every launch and every end wakes it; what is asked for
#: meanwhile is one pass, and a burst leaves the machine to whoever causes it.
REST: Final = 0.025

Stopping = Callable[[], bool]
Unfit = Callable[[ConfigurationError], None]


def run(settings: Settings, manager: Manager, stopping: Stopping, unfit: Unfit) -> int:
    """Consume the manager's queue until the process is told to end; the exit code."""
    return start_worker(
        make_worker_app(settings, manager, stopping, unfit),
        queue=manager_queue(manager),
        name=f"{manager}@%h",
        pool="prefork",
    )


def make_worker_app(
    settings: Settings, manager: Manager, stopping: Stopping, unfit: Unfit
) -> Celery:
    """The application whose one task runs the manager in the worker's child process.

    Args:
        settings: time limits, and what a pass needs.
        manager: which one.
        stopping: whether the process was told to end.
        unfit: called when this code must not write to the database any more.
    """
    app = make_app(settings, profile="worker")
    # past the budget the pass stops by itself; what does not stop within the grace is killed
    app.conf.task_time_limit = settings.manager_timeout + settings.manager_grace
    runners: list[Runner] = []
    rested_at = 0.0

    def open_runner(**_: Any) -> None:
        # in the child: nothing that is connected may be inherited over a fork
        die_with_parent(os.getppid(), signal.SIGKILL)
        runners[:] = [make_runner(settings, name=f"{manager} manager", stopping=stopping)]

    signals.worker_process_init.connect(open_runner, weak=False)

    def run_manager(payload: object) -> None:
        if not is_trigger(payload, manager):
            MESSAGES_IGNORED.labels(RUN_MANAGER).inc()
            return
        nonlocal rested_at
        clock.sleep(max(0.0, rested_at - clock.monotonic()))
        try:
            trigger(runners[0], manager)
        except SchemaError as error:
            unfit(error)
        rested_at = clock.monotonic() + REST

    app.task(run_manager, name=RUN_MANAGER)
    return app


def trigger(runner: Runner, manager: Manager) -> str:
    """Run a manager; an error is logged here, and the next trigger tries again.

    Raises:
        SchemaError: the schema needs newer code: there must be no next trigger.
    """
    try:
        return runner.trigger(manager)
    except SchemaError:
        raise
    except DBAPIError as error:
        if not is_away(error):
            log.exception("the pass failed", manager=str(manager))
        else:
            log.warning(
                "no pass: the database is away", manager=str(manager), error=first_line(error)
            )
    except Exception:
        # a pass that fails must not end the process that will run the next one
        log.exception("the pass failed", manager=str(manager))
    return "error"
