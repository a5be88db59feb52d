"""The scene of the recorded example: nodes, tenants with their templates, a workflow; and the launch."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert

from dispatcher.actions.launch_template import TemplateLaunch, launch_job_templates
from dispatcher.actions.launched import Launched
from dispatcher.actions.save_workflow import NodeSpec
from dispatcher.db import tables as t
from dispatcher.db.change import raise_counter
from tests import workflows
from tests.factories import make_node
from tests.templates import make_inventory, make_project, make_template, updated

WEIGHTS = {"Red": 1, "Blue": 3}
JOBS = 500
#: Of each tenant's jobs, every so many is for the one host that is locked.
LOCKED_EVERY = 25
#: Nodes, and what fits on each: five jobs of impact 2.
NODES, CAPACITY = 4, 10


def make_scene(connection: Connection) -> dict[str, Any]:
    """Nodes, and for each tenant one template of free jobs and one for the locked host."""
    for number in range(1, NODES + 1):
        make_node(connection, f"n{number}", capacity=CAPACITY)
    templates: dict[str, tuple[int, int]] = {}
    for tenant, weight in WEIGHTS.items():
        organization = connection.execute(
            insert(t.organization).values(name=tenant, weight=weight).returning(t.organization.c.id)
        ).scalar_one()
        own = {"organization_id": organization}
        project = make_project(connection, **own)
        updated(connection, project, **own)
        free = make_inventory(connection, ["web"], addresses={"web": f"{tenant}-web:22"}, **own)
        shared = make_inventory(connection, ["shop"], addresses={"shop": "192.0.2.7:22"}, **own)
        many = {"allow_simultaneous": True, **own}
        templates[tenant] = (
            make_template(connection, project, free, name=f"{tenant} web", **many),
            make_template(
                connection, project, shared, name=f"{tenant} shop", host_lock="exclusive", **many
            ),
        )
    project = make_project(connection)
    updated(connection, project)
    step = make_template(connection, project, make_inventory(connection, ["app"]), name="step")
    flow = workflows.make_template(
        connection,
        "release",
        [
            NodeSpec("build", "job_template", step),
            workflows.asks("approve"),
            NodeSpec("roll out", "job_template", step),
        ],
        workflows.moves("build>approve", "approve>roll out"),
    )
    raise_counter(connection)
    return {"templates": templates, "flow": flow}


def launch(connection: Connection, scene: dict[str, Any]) -> None:
    """The workflow and all jobs of both tenants, one of each in turn."""
    workflows.launch(connection, scene["flow"])
    wanted = [
        TemplateLaunch(shop if number % LOCKED_EVERY == 0 else web, {}, tenant)
        for number in range(JOBS)
        for tenant, (web, shop) in scene["templates"].items()
    ]
    for first in range(0, len(wanted), 500):
        found = launch_job_templates(connection, wanted[first : first + 500])
        refused = [each for each in found if not isinstance(each, Launched)]
        if refused:
            raise AssertionError(f"not launched: {refused[0]}")
    raise_counter(connection)
