"""``job_templates/N/launch/``: what a launch may give, and the launch itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Body, Path, Response
from pydantic import BaseModel, Field, TypeAdapter
from sqlalchemy import Connection

from dispatcher.actions.launch_template import launch_job_template
from dispatcher.actions.launched import Launched
from dispatcher.api.auth import CallerParameter
from dispatcher.api.v2 import objects, workflow_jobs
from dispatcher.api.v2.job_kinds import job_url
from dispatcher.api.v2.job_models import Job
from dispatcher.api.v2.job_template_models import ASKS, NEVER_ASKED, AllAsks
from dispatcher.api.v2.job_templates import JOB_TEMPLATE, render_one
from dispatcher.api.v2.jobs import render as render_job
from dispatcher.api.v2.launching import IdempotencyKey, launch
from dispatcher.api.v2.prompt_fields import (
    PromptBody,
    as_fields,
    read_variables_field,
    renamed,
    to_prompts,
)
from dispatcher.api.v2.resource import Row
from dispatcher.api.v2.workflow_job_models import WorkflowJob
from dispatcher.domain.status import Kind
from dispatcher.errors import InvalidRequest

router = JOB_TEMPLATE.router()

#: What the dialect can send and we do not have; nothing in it is the same as not sent.
UNSUPPORTED: Final = ("credential_passwords", "labels", "execution_environment")

TemplateId = Annotated[
    int, Path(alias="job_template_id", description="Number of the job template.", ge=1, lt=2**63)
]


class LaunchBody(PromptBody):
    """What a launch gives; what the template does not ask for is ignored, and named."""

    extra_vars: dict[str, Any] | str | None = Field(
        None, description="Extra variables: a mapping, or a text of JSON or YAML."
    )
    credential_passwords: dict[str, Any] | None = Field(None, description="Must be empty.")
    labels: list[int] | None = Field(None, description="Must be empty: there are none.")
    execution_environment: int | None = Field(None, description="Must be null: there are none.")


class Launch(BaseModel):
    """What was launched."""

    ignored_fields: dict[str, Any] = Field(
        description="What was sent and the template does not ask for."
    )


class LaunchedJob(Launch, Job):
    """A job that was launched."""

    job: int = Field(description="Number of the job.")


class LaunchedWorkflow(Launch, WorkflowJob):
    """A workflow job that was launched; also a launch in slices is one."""

    workflow_job: int = Field(description="Number of the workflow job.")


class LaunchPage(AllAsks):
    """What a launch of a job template needs and may give."""

    can_start_without_user_input: bool = Field(description="Whether an empty body launches it.")
    passwords_needed_to_start: list[str] = Field(description="Always empty.")
    credential_needed_to_start: bool = Field(description="Always false.")
    inventory_needed_to_start: bool = Field(description="Whether the launch must give one.")
    variables_needed_to_start: list[str] = Field(description="Always empty: there are no surveys.")
    survey_enabled: bool = Field(description="Always false.")
    job_template_data: dict[str, Any] = Field(description="Number, name and description.")
    defaults: dict[str, Any] = Field(description="What a launch has that gives nothing.")


_JOB: Final = TypeAdapter(LaunchedJob)
_WORKFLOW: Final = TypeAdapter(LaunchedWorkflow)
_DEFAULTS: Final = (
    "extra_vars",
    "limit",
    "job_tags",
    "skip_tags",
    "job_type",
    "verbosity",
    "diff_mode",
    "scm_branch",
    "forks",
    "timeout",
    "job_slice_count",
    "instance_groups",
    "priority",
    "credentials",
)


@router.get(
    "/{job_template_id}/launch/",
    summary="What a launch needs and may give",
    response_model=LaunchPage,
)
def get_launch(caller: CallerParameter, template_id: TemplateId) -> dict[str, Any]:
    """The prompts that the template asks for, and what it has without them."""
    with caller.reading() as connection:
        template = render_one(objects.read_row(connection, JOB_TEMPLATE, template_id))
    inventory = template["summary_fields"].get("inventory")
    needs_inventory = template["inventory"] is None
    return {
        **{name: template[name] for name in (*ASKS, *NEVER_ASKED)},
        "can_start_without_user_input": not needs_inventory,
        "passwords_needed_to_start": [],
        "credential_needed_to_start": False,
        "inventory_needed_to_start": needs_inventory,
        "variables_needed_to_start": [],
        "survey_enabled": False,
        "job_template_data": {name: template[name] for name in ("id", "name", "description")},
        "defaults": {
            **{name: template[name] for name in _DEFAULTS},
            "inventory": inventory and {name: inventory[name] for name in ("id", "name")},
        },
    }


@router.post(
    "/{job_template_id}/launch/",
    summary="Launch a job template",
    status_code=201,
    response_model=LaunchedJob | LaunchedWorkflow,
    responses={
        200: {
            "model": LaunchedJob | LaunchedWorkflow,
            "description": "The job that an earlier request with this key and body launched.",
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
    """A job; or a workflow job when the template is launched in slices."""

    def act(connection: Connection, principal: str, uuid: UUID) -> Launched:
        prompts = prompts_of(body or LaunchBody())
        with renamed():
            return launch_job_template(
                connection,
                template_id,
                prompts,
                principal=principal,
                idempotency_key=idempotency_key,
                uuid=uuid,
                cipher=caller.services.cipher,
            )

    row, launched = launch(caller, act)
    return launch_answer(row, launched)


def prompts_of(body: LaunchBody) -> dict[str, Any]:
    """The prompts of a body.

    Raises:
        InvalidRequest: something that we do not have is in it.
    """
    given = body.given()
    unsupported = {name: given.pop(name, None) for name in UNSUPPORTED}
    wrong = {name: "is not supported here" for name, value in unsupported.items() if value}
    if wrong:
        raise InvalidRequest(wrong)
    prompts = to_prompts(given)
    if "extra_vars" in prompts:
        prompts["extra_vars"] = read_variables_field(prompts["extra_vars"])
    return prompts


def launch_answer(row: Row, launched: Launched) -> Response:
    """The answer to a launch: the job with what was ignored."""
    ignored: Mapping[str, Any] = {"ignored_fields": as_fields(launched.ignored_fields)}
    kind = Kind(row["kind"])
    if kind is Kind.WORKFLOW:
        made = {**workflow_jobs.render(row), **ignored, "workflow_job": row["id"]}
        body = _WORKFLOW.dump_json(_WORKFLOW.validate_python(made))
    else:
        made = {**render_job(row), **ignored, "job": row["id"]}
        body = _JOB.dump_json(_JOB.validate_python(made))
    return Response(
        body,
        201 if launched.created else 200,
        {"Location": job_url(kind, row["id"])},
        media_type="application/json",
    )


class SurveySpec(BaseModel):
    """The questions of a survey."""

    name: str = Field(description="Always empty.")
    description: str = Field(description="Always empty.")
    spec: list[dict[str, Any]] = Field(description="Always empty: there are no surveys.")


@router.get(
    "/{job_template_id}/survey_spec/", summary="A template's survey", response_model=SurveySpec
)
def get_survey(caller: CallerParameter, template_id: TemplateId) -> dict[str, Any]:
    """Empty: for clients that ask for it."""
    with caller.reading() as connection:
        objects.read_row(connection, JOB_TEMPLATE, template_id)
    return {"name": "", "description": "", "spec": []}
