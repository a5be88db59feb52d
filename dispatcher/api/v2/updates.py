"""What project updates and inventory updates have in common: they are jobs, under their own paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from dispatcher.actions.launched import Launched
from dispatcher.api.auth import CallerParameter
from dispatcher.api.v2 import cancel, job_events, objects, stdout
from dispatcher.api.v2.jobs import JobId, render_in_list
from dispatcher.api.v2.launching import IdempotencyKey, launch_and_read
from dispatcher.api.v2.resource import (
    ROOT,
    ListQueryParameter,
    Page,
    Row,
    filters_of,
    read_list,
    url_of,
)
from dispatcher.db import listing as db
from dispatcher.db import update_queries
from dispatcher.db.listing import Listing
from dispatcher.domain.status import Kind, Status
from dispatcher.errors import NotFound

#: Of a project or source that was never updated.
NEVER_UPDATED: Final = "never updated"


class NoFields(objects.Body):
    """A body without fields."""


class CanUpdate(BaseModel):
    """Whether an update can be launched."""

    can_update: bool = Field(description="Always true.")


@dataclass(frozen=True)
class Updates:
    """One kind of updates.

    Attributes:
        resource: first part of their paths.
        render: what a row has beside the fields of every job.
    """

    kind: Kind
    resource: str
    model: type[BaseModel]
    listing: Callable[[], Listing]
    render: Callable[[Row], dict[str, Any]]

    @property
    def word(self) -> str:
        """What people call one."""
        return self.kind.replace("_", " ")

    def one(self, row: Row) -> dict[str, Any]:
        """An update as answers show it."""
        url = url_of(self.resource, row["id"])
        job = render_in_list(row)
        own = self.render(row)
        related = {
            **job["related"],
            **{name: f"{url}{name}/" for name in ("events", "stdout", "cancel")},
            **own.pop("related"),
        }
        del related["job_events"], related["job_host_summaries"]
        summary = {**job["summary_fields"], **own.pop("summary_fields")}
        return {**job, **own, "related": related, "summary_fields": summary}

    def read(self, connection: Connection, job_id: int) -> dict[str, Any]:
        """One update.

        Raises:
            NotFound: there is no such update of this kind.
        """
        row = db.read_one(connection, self.listing(), job_id)
        if row is None:
            raise NotFound
        return self.one(row)


def last_of(
    newest: Sequence[Row], resource: str
) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    """What a project or source says of its newest updates: fields, ``related``, summary fields.

    Args:
        newest: one that has not ended, then one that has, as far as there are any.
    """
    shown: dict[str, Any] = {
        "status": newest[0]["status"] if newest else NEVER_UPDATED,
        "last_job_run": None,
        "last_updated": None,
        "last_job_failed": False,
        "last_update_failed": False,
    }
    related, summary = {}, {}
    for update in newest:
        ended = update["finished"] is not None
        failed = ended and update["status"] != Status.SUCCESSFUL
        for word in ("job", "update"):
            name = f"{'last' if ended else 'current'}_{word}"
            related[name] = url_of(resource, update["id"])
            summary[name] = {"id": update["id"], "status": update["status"], "failed": failed}
        if ended:
            shown |= {"last_job_run": update["finished"], "last_updated": update["finished"]}
            shown |= {"last_job_failed": failed, "last_update_failed": failed}
    return shown, related, summary


def make_router(updates: Updates) -> APIRouter:
    """List and detail, and what jobs have below their own paths: events, output, cancel."""

    def of_kind(caller: CallerParameter, job_id: JobId) -> None:
        with caller.reading() as connection:
            if update_queries.read_kind(connection, job_id) != updates.kind:
                raise NotFound

    prefix = f"{ROOT}{updates.resource}"
    router = APIRouter(prefix=prefix, tags=["projects" if "project" in prefix else "inventories"])
    _add_reads(router, updates)
    for source, path, own_path in (
        (job_events.router, "/{job_id}/job_events/", "/{job_id}/events/"),
        (stdout.router, "/{job_id}/stdout/", "/{job_id}/stdout/"),
        (cancel.router, "/{job_id}/cancel/", "/{job_id}/cancel/"),
    ):
        for route in source.routes:
            if isinstance(route, APIRoute) and route.path == f"{source.prefix}{path}":
                _add_as_of_jobs(router, own_path, route, of_kind)
    return router


def _add_reads(router: APIRouter, updates: Updates) -> None:
    def list_updates(caller: CallerParameter, query: ListQueryParameter) -> dict[str, Any]:
        with caller.reading() as connection:
            return read_list(
                connection, query, updates.listing(), lambda rows: [updates.one(r) for r in rows]
            )

    def read_update(caller: CallerParameter, job_id: JobId) -> dict[str, Any]:
        with caller.reading() as connection:
            return updates.read(connection, job_id)

    router.get(
        "/",
        summary=f"List the {updates.word}s",
        description="Oldest first unless `order_by` says otherwise.",
        response_model=Page[updates.model],  # type: ignore[name-defined]
        openapi_extra=filters_of(updates.listing()),
    )(list_updates)
    router.get(
        "/{job_id}/",
        summary=f"One {updates.word}",
        description=f"A job that is a {updates.word}; `jobs/N/` shows it too.",
        response_model=updates.model,
    )(read_update)


def _add_as_of_jobs(
    router: APIRouter, path: str, route: APIRoute, of_kind: Callable[..., None]
) -> None:
    router.add_api_route(
        path,
        route.endpoint,
        methods=sorted(route.methods or ()),
        summary=route.summary,
        description=route.description,
        status_code=route.status_code,
        response_model=route.response_model,
        response_class=route.response_class,
        responses=route.responses,
        openapi_extra=route.openapi_extra,
        dependencies=[Depends(of_kind)],
    )


def add_launch(
    router: APIRouter,
    parent: objects.Noun,
    updates: Updates,
    launched: type[BaseModel],
    launch: Callable[[Connection, int, str, str | None, UUID], Launched],
) -> None:
    """``N/update/``: GET whether, POST launch.

    Args:
        launched: the answer: an update, and its number under the name of its kind.
        launch: given the parent's number, who asks, the idempotency key and the job's uuid.
    """

    def get_update(caller: CallerParameter, object_id: int) -> dict[str, object]:
        with caller.reading() as connection:
            objects.read_row(connection, parent, object_id)
        return {"can_update": True}

    def post_update(
        caller: CallerParameter,
        object_id: int,
        body: NoFields | None = None,
        idempotency_key: IdempotencyKey = None,
    ) -> dict[str, Any]:
        found, made = launch_and_read(
            caller,
            lambda connection, by, uuid: launch(connection, object_id, by, idempotency_key, uuid),
            updates.read,
        )
        return {**found, updates.kind: made.job_id}

    path = f"/{{{parent.key}}}/update/"
    router.get(
        path,
        summary=f"Can the {parent.word} be updated?",
        description="True for every one that exists.",
        response_model=CanUpdate,
    )(objects.typed(get_update, object_id=parent.number))
    router.post(
        path,
        summary=f"Update the {parent.word}",
        description="Launches a job that does it. Accepted when this is answered, whatever the"
        " broker does.",
        status_code=202,
        response_model=launched,
        responses={409: {"description": "`key_reused`: the key came with another request before."}},
    )(objects.typed(post_update, object_id=parent.number))
