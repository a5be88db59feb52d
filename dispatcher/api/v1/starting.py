"""A run is launched: content of the root directory, hosts reached with its key, a summary kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from dispatcher.actions.launch import Launched, launch_run, prepare_run
from dispatcher.api.v1.call import Call
from dispatcher.api.v1.envelope import Answer
from dispatcher.api.v2.launching import launch_and_read
from dispatcher.db import run_summaries
from dispatcher.db.run_summaries import ORGANIZATION
from dispatcher.domain.launch import RunRequest
from dispatcher.errors import Conflict, InvalidRequest


def start_run(call: Call, request: Mapping[str, Any]) -> Answer:
    """Launch a run; with an ``Idempotency-Key`` that came before, the run of then.

    Args:
        request: fields of a :class:`RunRequest`, without its content.

    Raises:
        InvalidRequest, Conflict: as the launch says.
        PackError, Unavailable: the project cannot be stored.
    """
    try:
        uuid = _launch(call, request, call.ground.bundle.digest())
    except (Conflict, InvalidRequest) as error:
        if not _is_of_the_bundle(error):
            raise
        uuid = _launch(call, request, call.ground.bundle.digest(again=True))
    return Answer("STARTED", "running", {"play_uuid": str(uuid)})


def _is_of_the_bundle(error: Conflict | InvalidRequest) -> bool:
    """Whether it was removed since, or is older than the playbook."""
    if isinstance(error, Conflict):
        return error.code == "content_missing"
    return list(error.fields) == ["playbook"]


def connection_of(call: Call) -> dict[str, str]:
    """How hosts are reached, unless the inventory says so itself."""
    options = call.ground.options
    variables = {"ansible_user": options.target_user} if options.target_user else {}
    if options.ssh_key.exists():
        variables["ansible_ssh_private_key_file"] = str(options.ssh_key)
    return variables


def _launch(call: Call, request: Mapping[str, Any], digest: str) -> UUID:
    # as ansible-playbook itself, which the old service asked: no hosts are no failure
    run = prepare_run(RunRequest(bundle_digest=digest, allow_no_hosts=True, **request))

    def act(connection: Connection, principal: str, uuid: UUID) -> Launched:
        run_summaries.ensure_organization(connection)
        return launch_run(
            connection,
            run,
            principal=principal,
            uuid=uuid,
            idempotency_key=call.headers.get("idempotency-key"),
            route="runner-service",
            cipher=call.caller.services.cipher,
            organization=ORGANIZATION,
            summarized=True,
        )

    _, launched = launch_and_read(call.caller, act, lambda connection, job_id: job_id)
    return launched.uuid
