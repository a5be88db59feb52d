"""``project_updates/``: the jobs that fetch projects."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from dispatcher.api.v2 import updates
from dispatcher.api.v2.job_models import JobInList
from dispatcher.api.v2.resource import Row, url_of
from dispatcher.db.update_queries import project_update_listing
from dispatcher.domain.status import Kind


class ProjectUpdate(JobInList):
    """A job that fetches a project. What only a playbook has is empty."""

    scm_type: str = Field(description="`git` or `local`, as the project was at the launch.")
    scm_url: str = Field(description="Where it was fetched from.")
    local_path: str = Field(description="Directory on the node, of a local project.")
    found_digest: str | None = Field(
        description="Digest of the content bundle that was made of it; null until then."
    )


class LaunchedProjectUpdate(ProjectUpdate):
    """An update that was accepted."""

    project_update: int = Field(description="Number of the update.")


def _render(row: Row) -> dict[str, Any]:
    digest = row["found_digest"]
    return {
        "related": {} if digest is None else {"content": url_of("content", digest)},
        "summary_fields": {},
        "unified_job_template": row["project_id"],
        "scm_type": row["scm_type"] or "",
        "scm_url": row["scm_url"] or "",
        "local_path": row["local_path"] or "",
        "found_digest": digest,
    }


PROJECT_UPDATES: Final = updates.Updates(
    kind=Kind.PROJECT_UPDATE,
    resource="project_updates",
    model=ProjectUpdate,
    listing=project_update_listing,
    render=_render,
)

router = updates.make_router(PROJECT_UPDATES)
