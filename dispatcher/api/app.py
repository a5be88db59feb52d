"""The application: routes, what they work with, and what happens at start and end."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Final

from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import HTMLResponse
from starlette.routing import BaseRoute

from dispatcher import __version__
from dispatcher.api import docs_page, errors, health
from dispatcher.api.description import Application
from dispatcher.api.edge import Edge
from dispatcher.api.followers import Followers
from dispatcher.api.parameters import refuse_unknown
from dispatcher.api.services import Services
from dispatcher.api.v1.options import options_of
from dispatcher.api.v1.service import RunnerService, make_ground
from dispatcher.api.v2 import (
    cancel,
    content,
    credentials,
    drain,
    explain,
    groups,
    hosts,
    instance_groups,
    instances,
    inventories,
    inventory_sources,
    inventory_updates,
    job_events,
    job_templates,
    jobs,
    metrics,
    organizations,
    pause,
    ping,
    project_updates,
    projects,
    relaunch,
    root,
    runs,
    schedules,
    stdout,
    stream,
    template_launch,
    workflow_approvals,
    workflow_graph,
    workflow_job_nodes,
    workflow_jobs,
    workflow_launch,
    workflow_nodes,
    workflow_templates,
)
from dispatcher.broker.celery_app import make_app
from dispatcher.broker.live import LiveListener
from dispatcher.broker.publish import Publisher
from dispatcher.db.engine import make_engine
from dispatcher.secrets import Cipher
from dispatcher.settings import Settings

_DESCRIPTION: Final = (
    "Runs Ansible playbooks on worker nodes. Speaks the dialect of AWX's controller API where it"
    " has the same things; `runs/`, `content/` and `jobs/N/stream/` are its own. Every route"
    " answers with and without its last slash. Lists take filters on their fields."
)
_TAGS: Final = [
    {"name": "runs", "description": "Submit a playbook run."},
    {"name": "content", "description": "Upload what runs need: content bundles by digest."},
    {"name": "jobs", "description": "Follow and cancel jobs; read their events and output."},
    {"name": "instances", "description": "Nodes and groups of nodes."},
    {"name": "organizations", "description": "Tenants: shares, limits, pauses."},
    {"name": "projects", "description": "Where playbooks come from, and their updates."},
    {"name": "inventories", "description": "Hosts, groups, and where they come from."},
    {"name": "credentials", "description": "What jobs log in with."},
    {"name": "job_templates", "description": "Playbooks with all that they are run with."},
    {"name": "workflow_job_templates", "description": "Graphs of templates, node by node."},
    {"name": "schedules", "description": "What is launched when."},
    {"name": "workflow_jobs", "description": "Runs of workflows, their nodes and approvals."},
    {"name": "cluster", "description": "The cluster as a whole."},
    {"name": "maps", "description": "Where everything is."},
    {"name": "health", "description": "For probes."},
]
#: Seconds after the start.
_DESCRIBED_AFTER: Final = 5.0
_ROUTERS: Final = (
    health.router,
    root.router,
    ping.router,
    runs.router,
    content.router,
    jobs.router,
    job_events.router,
    stdout.router,
    cancel.router,
    relaunch.router,
    explain.router,
    stream.router,
    instances.router,
    drain.router,
    instance_groups.router,
    pause.router,
    organizations.router,
    projects.router,
    project_updates.router,
    inventories.router,
    hosts.router,
    groups.router,
    inventory_sources.router,
    inventory_updates.router,
    credentials.router,
    job_templates.router,
    template_launch.router,
    workflow_templates.router,
    workflow_launch.router,
    workflow_nodes.inside,
    workflow_nodes.router,
    workflow_graph.router,
    schedules.of_job_templates,
    schedules.of_workflows,
    schedules.of_projects,
    schedules.of_sources,
    schedules.router,
    workflow_jobs.router,
    workflow_job_nodes.router,
    workflow_approvals.router,
    metrics.router,
)


def make_services(settings: Settings) -> Services:
    """What the endpoints work with; nothing is connected yet.

    Raises:
        ConfigurationError: a URL or the key file is missing.
    """
    engine = make_engine(
        settings,
        application_name="dispatcher api",
        pool_size=settings.api_pool_size,
        unacknowledged=5.0,  # somebody waits for each answer
    )
    return Services(
        settings=settings,
        engine=engine,
        publisher=Publisher(make_app(settings, profile="publisher")),
        followers=Followers(
            engine,
            LiveListener(make_app(settings, profile="worker")),
            readers=max(1, settings.api_pool_size // 2),
        ),
        cipher=Cipher(settings.key_file or settings.data_dir / "cluster.key"),
    )


@cache
def _routes() -> Sequence[BaseRoute]:
    """Every route; made once in a process, because FastAPI works long on what each of them takes."""
    every = APIRouter(redirect_slashes=False)
    for router in _ROUTERS:
        every.include_router(router, dependencies=[Depends(refuse_unknown)])
    return every.routes


def create_app(settings: Settings) -> FastAPI:
    """The ASGI application.

    Raises:
        ConfigurationError: a URL or the key file is missing, or v1's root directory unusable.
    """
    services = make_services(settings)
    v1 = options_of(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # some time after the start, whose processors it would take for a second: few requests need
        # it, and one that comes earlier makes it
        description = threading.Timer(_DESCRIBED_AFTER, app.openapi)
        description.daemon = True
        description.start()
        # no after-commit publish has to open a connection
        await to_thread.run_sync(services.publisher.warm)
        async with services.followers.running():
            yield
        description.cancel()
        services.engine.dispose()

    app = Application(
        title="Ansible dispatcher",
        version=__version__,
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    app.state.services = services
    errors.install(app)
    app.router.routes.extend(_routes())

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page.render(app.openapi()))

    if v1 is not None:
        app.add_middleware(RunnerService, ground=make_ground(services, v1))
    app.add_middleware(Edge, settings=settings)
    return app
