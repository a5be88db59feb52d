"""Which work belongs to which manager, and what a process needs to run it."""

from __future__ import annotations

from collections.abc import Callable

from dispatcher.broker.celery_app import make_app
from dispatcher.broker.messages import Manager
from dispatcher.broker.publish import Publisher
from dispatcher.db.engine import make_engine
from dispatcher.settings import Settings
from schedulers.passes import dependency_manager, due_schedules, task_manager, workflow_manager
from schedulers.passes.manager_pass import Runner
from schedulers.passes.recovery import Recovery


def make_runner(
    settings: Settings, *, name: str, stopping: Callable[[], bool] = lambda: False
) -> Runner:
    """A runner with one database connection and a warm publisher of its own.

    Args:
        settings: where database and broker are.
        name: shown in ``pg_stat_activity``.
        stopping: whether the process was told to end.
    """
    engine = make_engine(settings, application_name=f"dispatcher {name}")
    publisher = Publisher(make_app(settings, profile="publisher"))
    publisher.warm()
    return Runner(
        settings=settings,
        engine=engine,
        publisher=publisher,
        works={
            Manager.DEPENDENCY: dependency_manager.run,
            Manager.TASK: task_manager.run,
            Manager.WORKFLOW: workflow_manager.run,
            Manager.RECOVERY: Recovery(engine).run,
            Manager.SCHEDULES: due_schedules.run,
        },
        stopping=stopping,
    )


def period(settings: Settings, manager: Manager) -> float:
    """Seconds between two triggers of a manager by beat."""
    return settings.recovery_period if manager is Manager.RECOVERY else settings.manager_period
