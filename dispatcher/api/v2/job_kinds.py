"""What each kind of job is called in answers, and where it is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dispatcher.api.v2.resource import url_of
from dispatcher.domain.status import Kind

#: The word in ``type``.
TYPES: Final[Mapping[Kind, str]] = {
    Kind.PLAYBOOK: "job",
    Kind.PROJECT_UPDATE: "project_update",
    Kind.INVENTORY_UPDATE: "inventory_update",
    Kind.CLEANUP: "system_job",
    Kind.WORKFLOW: "workflow_job",
    Kind.APPROVAL: "workflow_approval",
}
#: Kinds with a resource of their own; every job can be read below ``jobs/`` too.
RESOURCES: Final[Mapping[Kind, str]] = {
    Kind.PROJECT_UPDATE: "project_updates",
    Kind.INVENTORY_UPDATE: "inventory_updates",
    Kind.WORKFLOW: "workflow_jobs",
    Kind.APPROVAL: "workflow_approvals",
}


def job_url(kind: Kind, job_id: int) -> str:
    """Path of a job."""
    return url_of(RESOURCES.get(kind, "jobs"), job_id)
