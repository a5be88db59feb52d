"""What schedules launch: one table, target → how, each in one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from dispatcher.actions.launch_template import TemplateLaunch, launch_job_templates
from dispatcher.actions.launch_update import (
    InventoryUpdate,
    ProjectUpdate,
    launch_inventory_updates,
    launch_project_updates,
)
from dispatcher.actions.launch_workflow import WorkflowLaunch, launch_workflows
from dispatcher.actions.launched import Launched
from dispatcher.errors import DispatcherError, NotFound

#: The launch type of jobs that a schedule launched.
SCHEDULED: Final = "scheduled"


@dataclass(frozen=True)
class ScheduledLaunch:
    """One launch by a schedule.

    Attributes:
        template_id: the id of the target, of whatever kind.
        principal: shown as ``launched_by``.
    """

    schedule_id: int
    template_id: int
    prompts: Mapping[str, Any]
    principal: str


#: Makes jobs; for each launch its job, or what is wrong with it.
Launcher = Callable[[Connection, Sequence[ScheduledLaunch]], Sequence[Launched | DispatcherError]]


def _job_templates(
    connection: Connection, launches: Sequence[ScheduledLaunch]
) -> Sequence[Launched | DispatcherError]:
    wanted = [
        TemplateLaunch(
            each.template_id, each.prompts, each.principal, SCHEDULED, schedule_id=each.schedule_id
        )
        for each in launches
    ]
    return launch_job_templates(connection, wanted)


def _workflows(
    connection: Connection, launches: Sequence[ScheduledLaunch]
) -> Sequence[Launched | DispatcherError]:
    wanted = [
        WorkflowLaunch(each.template_id, each.prompts, each.principal, SCHEDULED)
        for each in launches
    ]
    return launch_workflows(connection, wanted)


def _updates(
    launch: Callable[..., Sequence[Launched | None]], update: Callable[[int], Any], word: str
) -> Launcher:
    """Updates one after another: they are few, and each may be by another principal."""

    def launcher(
        connection: Connection, launches: Sequence[ScheduledLaunch]
    ) -> Sequence[Launched | DispatcherError]:
        found: list[Launched | DispatcherError] = []
        for each in launches:
            (made,) = launch(
                connection,
                [update(each.template_id)],
                launch_type=SCHEDULED,
                principal=each.principal,
            )
            found.append(made or NotFound(f"there is no {word} {each.template_id}"))
        return found

    return launcher


#: What a schedule launches → how.
LAUNCHERS: Final[Mapping[str, Launcher]] = {
    "job_template": _job_templates,
    "workflow_job_template": _workflows,
    "project": _updates(launch_project_updates, ProjectUpdate, "project"),
    "inventory_source": _updates(launch_inventory_updates, InventoryUpdate, "inventory source"),
}


def launch_scheduled(
    connection: Connection, launches: str, wanted: Sequence[ScheduledLaunch]
) -> Sequence[Launched | DispatcherError]:
    """Launch what schedules of one kind of target want; the answers are in the same order.

    The caller raises the change counter.
    """
    return LAUNCHERS[launches](connection, wanted) if wanted else []
