"""``organizations/``: the tenants, with their share of the cluster, their limit and their pause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field
from sqlalchemy import Connection

from dispatcher.actions import save_organization as save
from dispatcher.api.v2 import objects
from dispatcher.api.v2.instance_groups import INSTANCE_GROUP
from dispatcher.api.v2.object_form import Stored, capabilities, stored
from dispatcher.api.v2.resource import ROOT, Row, url_of
from dispatcher.broker.messages import Owed
from dispatcher.db import organization_queries as queries
from dispatcher.db.node_queries import group_listing


class Organization(Stored):
    """A tenant: whoever projects, inventories, templates and jobs belong to."""

    weight: float = Field(description="Its share of the cluster, relative to the others'.")
    max_concurrent_jobs: int = Field(description="Most jobs of it at once; 0: no limit.")
    instance_groups: list[int] = Field(
        description="Instance groups of its jobs that name none, in order of preference."
    )
    paused: bool = Field(description="Whether its jobs are not started; what runs goes on.")
    pause_reason: str = Field(description="Why it is paused, in words.")
    max_hosts: int = Field(description="Always 0: no limit.")
    default_environment: int | None = Field(description="Always null.")
    custom_virtualenv: str | None = Field(description="Always null.")


class OrganizationChanges(objects.Body):
    """What can be changed of an organization."""

    name: str = Field("", description="Unique among all organizations.", examples=["ops"])
    description: str = Field("", description="What it is for, in words.")
    weight: float = Field(
        1.0, description="Its share of the cluster, relative to the others'; above 0."
    )
    max_concurrent_jobs: int = Field(0, description="Most jobs of it at once; 0: no limit.")
    instance_groups: list[int] = Field(
        default_factory=list,
        description="Instance groups of its jobs that name none, in order of preference; empty:"
        " `default`.",
    )
    paused: bool = Field(False, description="Whether its jobs are not started.")
    pause_reason: str = Field("", description="Why it is paused; shown by jobs that wait for it.")


class NewOrganization(OrganizationChanges):
    """An organization to be made."""

    name: str = Field(description="Unique among all organizations.", examples=["ops"])


def _render(connection: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    counts = queries.count_owned(connection, [row["id"] for row in rows])
    return [_one(row, {kind: c.get(row["id"], 0) for kind, c in counts.items()}) for row in rows]


def _one(row: Row, counts: dict[str, int]) -> dict[str, Any]:
    same = ("weight", "max_concurrent_jobs", "instance_groups", "paused", "pause_reason")
    of_it = f"/?organization={row['id']}"
    return {
        **stored(row, "organization", "organizations"),
        **{name: row[name] for name in same},
        "related": {
            **{name: f"{ROOT}{name}{of_it}" for name in ("jobs", "projects", "inventories")},
            "instance_groups": f"{url_of('organizations', row['id'])}instance_groups/",
        },
        "summary_fields": {
            "related_field_counts": counts,
            "user_capabilities": capabilities(),
        },
        "max_hosts": 0,
        "default_environment": None,
        "custom_virtualenv": None,
    }


def _delete(connection: Connection, organization_id: int) -> Owed:
    save.delete_organization(connection, organization_id)
    return Owed()


ORGANIZATION: Final = objects.Noun(
    word="organization",
    resource="organizations",
    key="organization_id",
    tag="organizations",
    model=Organization,
    new=NewOrganization,
    changes=OrganizationChanges,
    subject=save.ORGANIZATION,
    listing=queries.organization_listing,
    render=_render,
    create=save.create_organization,
    change=save.change_organization,
    delete=_delete,
)

router = ORGANIZATION.router()
objects.add_routes(router, ORGANIZATION)


def _put_group(connection: Connection, organization_id: int, group_id: int, member: bool) -> Owed:
    save.put_group(connection, organization_id, group_id, member=member)
    return Owed()  # jobs that have been launched keep their groups


objects.add_list_inside(
    router,
    ORGANIZATION,
    "instance_groups",
    INSTANCE_GROUP,
    lambda number: group_listing(organization_id=number),
    what="the instance groups that one organization prefers",
)
objects.add_members(
    router, ORGANIZATION, "instance_groups", _put_group, what="groups that an organization prefers"
)
