"""``projects/``: where playbooks come from, and their updates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import Field
from sqlalchemy import Connection

from dispatcher.actions import save_project as save
from dispatcher.actions.launch_update import launch_project_update
from dispatcher.actions.launched import Launched
from dispatcher.api.v2 import objects, updates
from dispatcher.api.v2.object_form import Stored, capabilities, named, stored
from dispatcher.api.v2.project_updates import PROJECT_UPDATES, LaunchedProjectUpdate
from dispatcher.api.v2.resource import ROOT, Row, url_of
from dispatcher.broker.messages import Owed
from dispatcher.db import project_queries as queries


class Project(Stored):
    """A tree of playbooks, and where it is fetched from."""

    organization: int = Field(description="Organization that it belongs to.")
    scm_type: str = Field(description="`git`, or `local` for a directory on the nodes.")
    scm_url: str = Field(description="Where git fetches it from.")
    local_path: str = Field(description="Directory on the nodes, of a local project.")
    scm_branch: str = Field(description="Branch, tag or commit; empty: the remote's default.")
    scm_revision: str = Field(description="What the last update found; empty if it failed.")
    scm_update_on_launch: bool = Field(description="Whether a job updates it first.")
    scm_update_cache_timeout: int = Field(
        description="Seconds for which an update is new enough for the jobs that follow."
    )
    timeout: int = Field(description="Seconds after which an update is stopped; 0: never.")
    status: str = Field(
        description="That of the newest update that has not ended, else of the last one, else"
        " `never updated`."
    )
    last_job_run: datetime | None = Field(description="When the last update ended.")
    last_updated: datetime | None = Field(description="The same.")
    last_job_failed: bool = Field(description="Whether it ended in any other way than well.")
    last_update_failed: bool = Field(description="The same.")
    next_job_run: datetime | None = Field(description="Always null.")
    scm_refspec: str = Field(description="Always empty.")
    scm_clean: bool = Field(description="Always true: every update has a tree of its own.")
    scm_delete_on_update: bool = Field(description="Always false.")
    scm_track_submodules: bool = Field(description="Always false.")
    credential: int | None = Field(description="Credential of kind `scm` that git logs in with.")
    allow_override: bool = Field(description="Always true: a template may name a branch.")
    default_environment: int | None = Field(description="Always null.")


class ProjectChanges(objects.Body):
    """What can be changed of a project."""

    name: str = Field("", description="Unique in its organization.", examples=["site"])
    organization: int = Field(0, description="Number of its organization.", examples=[1])
    description: str = Field("", description="What it is for, in words.")
    scm_type: str = Field("git", description="`git` or `local`.", examples=["git"])
    scm_url: str = Field(
        "",
        description="Of a git project: https, ssh or user@host:path, without a password.",
        examples=["https://git.example/site.git"],
    )
    local_path: str = Field("", description="Of a local project: absolute path on the nodes.")
    scm_branch: str = Field("", description="Branch, tag or commit; empty: the remote's default.")
    scm_update_on_launch: bool = Field(False, description="Whether a job updates it first.")
    scm_update_cache_timeout: int = Field(
        0, description="Seconds for which an update is new enough for the jobs that follow."
    )
    timeout: int = Field(600, description="Seconds after which an update is stopped; 0: never.")
    credential: int | None = Field(
        None, description="Number of the credential of kind `scm` that git logs in with."
    )


class NewProject(ProjectChanges):
    """A project to be made."""

    name: str = Field(description="Unique in its organization.", examples=["site"])
    organization: int = Field(description="Number of its organization.", examples=[1])
    scm_type: str = Field(description="`git` or `local`.", examples=["git"])


def _render(connection: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    newest = queries.read_updates(connection, "project_update", [row["id"] for row in rows])
    ended = [u["id"] for found in newest.values() for u in found if u["finished"]]
    revisions = queries.read_revisions(connection, ended)
    return [_one(row, newest.get(row["id"], []), revisions) for row in rows]


def _one(row: Row, newest: Sequence[Row], revisions: dict[int, str]) -> dict[str, Any]:
    url = url_of("projects", row["id"])
    of_it = f"/?project={row['id']}"
    shown, related, summary = updates.last_of(newest, "project_updates")
    last = newest[-1]["id"] if newest else 0
    return {
        **stored(row, "project", "projects"),
        **{n: row[n] for n in ("scm_type", "scm_url", "local_path", "scm_branch", "timeout")},
        **shown,
        "organization": row["organization_id"],
        "scm_revision": revisions.get(last, ""),
        "scm_update_on_launch": row["update_on_launch"],
        "scm_update_cache_timeout": row["cache_timeout"],
        "related": {
            **related,
            "organization": url_of("organizations", row["organization_id"]),
            "update": f"{url}update/",
            "schedules": f"{url}schedules/",
            "project_updates": f"{ROOT}project_updates{of_it}",
        },
        "summary_fields": {
            **summary,
            "organization": named(row["organization_id"], row["organization_name"]),
            "user_capabilities": capabilities(start=True),
        },
        "next_job_run": None,
        "scm_refspec": "",
        "scm_clean": True,
        "scm_delete_on_update": False,
        "scm_track_submodules": False,
        "credential": row["credential_id"],
        "allow_override": True,
        "default_environment": None,
    }


def _create(connection: Connection, values: dict[str, Any], by: str) -> tuple[int, Owed]:
    return save.create_project(connection, values), Owed()


def _change(connection: Connection, project_id: int, values: dict[str, Any], by: str) -> Owed:
    save.change_project(connection, project_id, values)
    return Owed()


def _delete(connection: Connection, project_id: int) -> Owed:
    save.delete_project(connection, project_id)
    return Owed()


def _launch(
    connection: Connection, project_id: int, by: str, key: str | None, uuid: UUID
) -> Launched:
    return launch_project_update(
        connection, project_id, principal=by, idempotency_key=key, uuid=uuid
    )


PROJECT: Final = objects.Noun(
    word="project",
    resource="projects",
    key="project_id",
    tag="projects",
    model=Project,
    new=NewProject,
    changes=ProjectChanges,
    subject=save.PROJECT,
    listing=queries.project_listing,
    render=_render,
    create=_create,
    change=_change,
    delete=_delete,
)

router = PROJECT.router()
objects.add_routes(router, PROJECT)
updates.add_launch(router, PROJECT, PROJECT_UPDATES, LaunchedProjectUpdate, _launch)
