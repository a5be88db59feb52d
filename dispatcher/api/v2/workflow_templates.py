"""``workflow_job_templates/``: graphs of templates that are launched together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field
from sqlalchemy import Connection

from dispatcher.actions import save_workflow_template as save
from dispatcher.api.v2 import objects
from dispatcher.api.v2.object_form import Stored, capabilities, named, stored
from dispatcher.api.v2.prompt_fields import read_variables_field
from dispatcher.api.v2.resource import ROOT, Row, url_of
from dispatcher.broker.messages import Owed
from dispatcher.db.workflow_queries import template_listing
from dispatcher.domain.variables_text import show_variables

_SAME: Final = (
    "allow_simultaneous",
    "ask_variables_on_launch",
    "ask_limit_on_launch",
    "ask_inventory_on_launch",
)
#: What the dialect has and we do not.
_ABSENT: Final[dict[str, Any]] = {
    "scm_branch": "",
    "job_tags": "",
    "skip_tags": "",
    "survey_enabled": False,
    "ask_scm_branch_on_launch": False,
    "ask_labels_on_launch": False,
    "ask_tags_on_launch": False,
    "ask_skip_tags_on_launch": False,
    "webhook_service": "",
    "webhook_credential": None,
}


class WorkflowJobTemplate(Stored):
    """A graph of templates."""

    organization: int = Field(description="Organization that it belongs to.")
    extra_vars: str = Field(description="Extra variables of all its nodes, as a text of JSON.")
    inventory: int | None = Field(description="Inventory that all nodes are given; null: none.")
    limit: str = Field(description="Host pattern that all nodes are given; empty: none.")
    allow_simultaneous: bool = Field(description="Whether runs of it run at the same time.")
    ask_variables_on_launch: bool = Field(description="Whether a launch may give variables.")
    ask_limit_on_launch: bool = Field(description="Whether a launch may give a limit.")
    ask_inventory_on_launch: bool = Field(description="Whether a launch may give the inventory.")
    scm_branch: str = Field(description="Always empty.")
    job_tags: str = Field(description="Always empty.")
    skip_tags: str = Field(description="Always empty.")
    survey_enabled: bool = Field(description="Always false.")
    ask_scm_branch_on_launch: bool = Field(description="Always false.")
    ask_labels_on_launch: bool = Field(description="Always false.")
    ask_tags_on_launch: bool = Field(description="Always false.")
    ask_skip_tags_on_launch: bool = Field(description="Always false.")
    webhook_service: str = Field(description="Always empty.")
    webhook_credential: int | None = Field(description="Always null.")


class WorkflowJobTemplateChanges(objects.Body):
    """What can be changed of a workflow job template."""

    name: str = Field("", description="Unique in its organization.", examples=["release"])
    description: str = Field("", description="What it is for, in words.")
    organization: int = Field(0, description="Number of its organization.", examples=[1])
    extra_vars: dict[str, Any] | str = Field(
        "", description="Extra variables: a mapping, or a text of JSON or YAML."
    )
    inventory: int | None = Field(None, description="Inventory that all nodes are given.")
    limit: str | None = Field(None, description="Host pattern that all nodes are given.")
    allow_simultaneous: bool = Field(False, description="Runs of it may run at the same time.")
    ask_variables_on_launch: bool = Field(False, description="A launch may give variables.")
    ask_limit_on_launch: bool = Field(False, description="A launch may give a limit.")
    ask_inventory_on_launch: bool = Field(False, description="A launch may give the inventory.")


class NewWorkflowJobTemplate(WorkflowJobTemplateChanges):
    """A workflow job template to be made."""

    name: str = Field(description="Unique in its organization.", examples=["release"])
    organization: int = Field(description="Number of its organization.", examples=[1])


def render_one(row: Row) -> dict[str, Any]:
    """A workflow job template as answers show it."""
    shown = stored(row, "workflow_job_template", "workflow_job_templates")
    return {
        **_ABSENT,
        **shown,
        **{name: row[name] for name in _SAME},
        "organization": row["organization_id"],
        "extra_vars": show_variables(row["extra_vars"]),
        "inventory": row["prompts"].get("inventory"),
        "limit": row["prompts"].get("limit", ""),
        "related": {
            **{
                name: f"{shown['url']}{name}/"
                for name in ("launch", "schedules", "workflow_nodes", "graph")
            },
            "organization": url_of("organizations", row["organization_id"]),
            "workflow_jobs": f"{ROOT}workflow_jobs/?workflow_job_template={row['id']}",
        },
        "summary_fields": {
            "organization": named(row["organization_id"], row["organization_name"]),
            "user_capabilities": capabilities(start=True, schedule=True, copy=False),
            "labels": {"count": 0, "results": []},
        },
    }


def _render(_: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [render_one(row) for row in rows]


def _values(given: dict[str, Any]) -> dict[str, Any]:
    if "extra_vars" not in given:
        return given
    return {**given, "extra_vars": read_variables_field(given["extra_vars"])}


def _create(connection: Connection, given: dict[str, Any], _by: str) -> tuple[int, Owed]:
    return save.create_workflow_template(connection, _values(given)), Owed()


def _change(connection: Connection, template_id: int, given: dict[str, Any], _by: str) -> Owed:
    save.change_workflow_template(connection, template_id, _values(given))
    return Owed()


def _delete(connection: Connection, template_id: int) -> Owed:
    save.delete_workflow_template(connection, template_id)
    return Owed()


WORKFLOW_TEMPLATE: Final = objects.Noun(
    word="workflow job template",
    resource="workflow_job_templates",
    key="workflow_job_template_id",
    tag="workflow_job_templates",
    model=WorkflowJobTemplate,
    new=NewWorkflowJobTemplate,
    changes=WorkflowJobTemplateChanges,
    subject=save.WORKFLOW_TEMPLATE,
    listing=template_listing,
    render=_render,
    create=_create,
    change=_change,
    delete=_delete,
)

router = WORKFLOW_TEMPLATE.router()
objects.add_routes(router, WORKFLOW_TEMPLATE)
