"""The maps from which clients find their way: ``/api/`` and ``/api/v2/``."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from pydantic import BaseModel, Field

from dispatcher.api.v2.resource import ROOT

router = APIRouter(tags=["maps"])

#: What ``/api/v2/`` lists; a test compares it with the routes.
RESOURCES: Final = (
    "content",
    "credentials",
    "groups",
    "hosts",
    "instance_groups",
    "instances",
    "inventories",
    "inventory_sources",
    "inventory_updates",
    "job_templates",
    "jobs",
    "metrics",
    "organizations",
    "pause",
    "ping",
    "project_updates",
    "projects",
    "runs",
    "schedules",
    "workflow_approvals",
    "workflow_job_nodes",
    "workflow_job_template_nodes",
    "workflow_job_templates",
    "workflow_jobs",
)


class Versions(BaseModel):
    """The versions of the API."""

    description: str = Field(description="What this is.")
    current_version: str = Field(description="Path of the version to use.")
    available_versions: dict[str, str] = Field(description="Version → path.")
    oauth2: str = Field(description="Empty: tokens are made by `dispatcher token create`.")
    custom_logo: str = Field(description="Empty.")
    custom_login_info: str = Field(description="Empty.")


@router.get("/api/", summary="Versions of the API", response_model=Versions)
async def versions() -> Versions:
    """The first call of every client of the dialect; needs no token."""
    return Versions(
        description="Ansible dispatcher REST API",
        current_version=ROOT,
        available_versions={"v2": ROOT},
        oauth2="",
        custom_logo="",
        custom_login_info="",
    )


@router.get("/api/v2/", summary="Map of the resources", response_model=dict[str, str])
async def resources() -> dict[str, str]:
    """Name → path of every resource; needs no token."""
    return {name: f"{ROOT}{name}/" for name in RESOURCES}
