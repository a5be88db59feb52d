"""``runs/``: a playbook, its content and its inventory become a job in one call."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from dispatcher.actions.launch import Launched, PreparedRun, launch_run, prepare_run
from dispatcher.api.auth import Caller, CallerParameter
from dispatcher.api.body import JsonRoute
from dispatcher.api.v2.job_models import Job
from dispatcher.api.v2.jobs import answer
from dispatcher.api.v2.launching import IdempotencyKey, launch
from dispatcher.domain.launch import RunRequest

router = APIRouter(prefix="/api/v2/runs", tags=["runs"], route_class=JsonRoute)

#: Characters from which an inventory takes more than a moment to read.
_LARGE_INVENTORY: Final = 100_000


class RunBody(BaseModel):
    """A playbook run as a caller asks for it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    playbook: str = Field(
        description="Path of the playbook in the bundle, relative, with `/`.",
        examples=["site.yml"],
    )
    bundle_digest: str = Field(
        description="SHA-256 (hex) of the content bundle; upload it to `content/` first.",
        examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    )
    inventory: str | None = Field(
        None,
        description="Text of an INI or YAML inventory; or null with `inventory_path`.",
        examples=["web1 ansible_host=10.0.0.1\n"],
    )
    inventory_path: str | None = Field(
        None,
        description="Path of an inventory in the bundle; exactly one of the two is given.",
        examples=[None],
    )
    name: str = Field("", description="Shown to people; by default the playbook's.")
    limit: str = Field("", description="Host pattern; empty: all hosts.")
    extra_vars: dict[str, Any] = Field(
        default_factory=dict, description="Extra variables, passed as unsafe text: never templated."
    )
    secret_vars: dict[str, Any] = Field(
        default_factory=dict,
        description="Extra variables that are encrypted at rest, masked in output, never shown.",
    )
    tags: list[str] = Field(default_factory=list, description="Only tasks with these tags.")
    skip_tags: list[str] = Field(default_factory=list, description="No tasks with these tags.")
    check_mode: bool = Field(False, description="Change nothing, only say what would change.")
    diff_mode: bool = Field(False, description="Show changes of files.")
    forks: int = Field(0, description="Hosts worked on at once; 0: Ansible's default (5).")
    verbosity: int = Field(0, description="0 to 5.")
    timeout: int = Field(0, description="Seconds after which the run is stopped; 0: never.")
    idle_timeout: int = Field(
        0, description="Seconds without output after which it is stopped; 0: the node's setting."
    )
    allow_no_hosts: bool = Field(
        False, description="Whether a run that matches no host is successful."
    )
    max_unreachable: int | str = Field(
        "0", description="Unreachable hosts that are tolerated: a number, or a share like `10%`."
    )
    max_failed: int | str = Field(
        "0", description="Failed hosts that are tolerated: a number, or a share like `10%`."
    )
    host_lock: str = Field(
        "none",
        description="`none`; `shared` or `exclusive`: no other run changes these hosts meanwhile.",
    )
    host_key_policy: str = Field(
        "accept-new", description="SSH keys of new hosts: `accept-new` or `strict`."
    )
    priority: int = Field(0, description="Higher starts first.")
    instance_groups: list[str] = Field(
        default_factory=list,
        description="Names of instance groups, in order of preference; empty: `default`.",
    )
    credentials: list[int] = Field(
        default_factory=list, description="Numbers of the credentials that it logs in with."
    )

    def request(self) -> RunRequest:
        """The same as the launch action takes it."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        for name in ("tags", "skip_tags", "instance_groups", "credentials"):
            given[name] = tuple(given[name])
        for name in ("max_unreachable", "max_failed"):
            given[name] = str(given[name])
        return RunRequest(**given)


@router.post(
    "/",
    summary="Run a playbook",
    status_code=201,
    response_model=Job,
    responses={
        200: {
            "model": Job,
            "description": "The job that an earlier request with this key and body launched.",
        },
        409: {
            "description": "`content_missing`: upload what `missing` lists first. `key_reused`: the"
            " key came with another body before. `in_progress`: the first request with the key is"
            " still being answered; try again after Retry-After."
        },
    },
)
def post_run(
    caller: CallerParameter, body: RunBody, idempotency_key: IdempotencyKey = None
) -> Response:
    """The job is accepted when this is answered, whatever the broker does; it cannot be lost."""
    run = _prepared(caller, body.request())

    def act(connection: Connection, principal: str, uuid: UUID) -> Launched:
        return launch_run(
            connection,
            run,
            principal=principal,
            uuid=uuid,
            idempotency_key=idempotency_key,
            cipher=caller.services.cipher,
        )

    row, launched = launch(caller, act)
    return answer(row, status_code=201 if launched.created else 200, located=True)


def _prepared(caller: Caller, request: RunRequest) -> RunRequest | PreparedRun:
    """A request with a large inventory is checked before its transaction, which must not stand
    still for seconds; the token is looked at first, because that work is not for everybody.
    """
    if len(request.inventory or "") < _LARGE_INVENTORY:
        return request
    caller.check()
    return prepare_run(request)
