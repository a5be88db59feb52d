"""``workflow_job_templates/N/launch/``."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Body, Path, Response
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from dispatcher.actions.launch_workflow import launch_workflow
from dispatcher.actions.launched import Launched
from dispatcher.api.auth import CallerParameter
from dispatcher.api.v2 import objects
from dispatcher.api.v2.launching import IdempotencyKey, launch
from dispatcher.api.v2.template_launch import (
    LaunchBody,
    LaunchedWorkflow,
    launch_answer,
    prompts_of,
)
from dispatcher.api.v2.workflow_templates import WORKFLOW_TEMPLATE, render_one

router = WORKFLOW_TEMPLATE.router()

TemplateId = Annotated[
    int,
    Path(
        alias="workflow_job_template_id",
        description="Number of the workflow job template.",
        ge=1,
        lt=2**63,
    ),
]


class WorkflowLaunchPage(BaseModel):
    """What a launch of a workflow may give."""

    can_start_without_user_input: bool = Field(description="Always true.")
    ask_variables_on_launch: bool = Field(description="Whether a launch may give variables.")
    ask_limit_on_launch: bool = Field(description="Whether a launch may give a limit.")
    ask_inventory_on_launch: bool = Field(description="Whether a launch may give the inventory.")
    ask_scm_branch_on_launch: bool = Field(description="Always false.")
    ask_labels_on_launch: bool = Field(description="Always false.")
    ask_tags_on_launch: bool = Field(description="Always false.")
    ask_skip_tags_on_launch: bool = Field(description="Always false.")
    survey_enabled: bool = Field(description="Always false.")
    variables_needed_to_start: list[str] = Field(description="Always empty: there are no surveys.")
    node_templates_missing: list[int] = Field(description="Always empty; see `workflow_nodes/`.")
    node_prompts_rejected: list[int] = Field(description="Always empty.")
    workflow_job_template_data: dict[str, Any] = Field(description="Number, name and description.")
    defaults: dict[str, Any] = Field(description="What a launch has that gives nothing.")


@router.get(
    "/{workflow_job_template_id}/launch/",
    summary="What a launch may give",
    response_model=WorkflowLaunchPage,
)
def get_launch(caller: CallerParameter, template_id: TemplateId) -> dict[str, Any]:
    """The prompts that the template asks for, and what it has without them."""
    with caller.reading() as connection:
        template = render_one(objects.read_row(connection, WORKFLOW_TEMPLATE, template_id))
    asks = [name for name in WorkflowLaunchPage.model_fields if name.startswith("ask_")]
    return {
        **{name: template[name] for name in asks},
        "can_start_without_user_input": True,
        "survey_enabled": False,
        "variables_needed_to_start": [],
        "node_templates_missing": [],
        "node_prompts_rejected": [],
        "workflow_job_template_data": {
            name: template[name] for name in ("id", "name", "description")
        },
        "defaults": {name: template[name] for name in ("extra_vars", "limit", "inventory")},
    }


@router.post(
    "/{workflow_job_template_id}/launch/",
    summary="Launch a workflow",
    status_code=201,
    response_model=LaunchedWorkflow,
    responses={
        200: {
            "model": LaunchedWorkflow,
            "description": "The run that an earlier request with this key and body launched.",
        },
        409: {"description": "`key_reused`, `in_progress`: as for `runs/`."},
    },
)
def post_launch(
    caller: CallerParameter,
    template_id: TemplateId,
    body: Annotated[LaunchBody | None, Body()] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """A run with a copy of the graph: later changes of the template do not touch it."""

    def act(connection: Connection, principal: str, uuid: UUID) -> Launched:
        return launch_workflow(
            connection,
            template_id,
            prompts_of(body or LaunchBody()),
            principal=principal,
            idempotency_key=idempotency_key,
            uuid=uuid,
        )

    return launch_answer(*launch(caller, act))
