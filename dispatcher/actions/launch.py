"""Launch: a request becomes a job, with everything the managers need computed once and stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, insert, text

from dispatcher import clock
from dispatcher.actions.idempotency import take_key
from dispatcher.actions.launched import Launched as Launched
from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import credential_rows, run_summaries
from dispatcher.db import tables as t
from dispatcher.db.change import raise_counter
from dispatcher.domain.bundle import candidates
from dispatcher.domain.launch import (
    DEFAULT_FORKS,
    RunRequest,
    Targets,
    effective_host_lock,
    impact,
    validate,
)
from dispatcher.domain.status import Kind
from dispatcher.errors import Conflict, InvalidRequest
from dispatcher.secrets import Cipher


@dataclass(frozen=True)
class PreparedRun:
    """A request that was checked, and the hosts that were found."""

    request: RunRequest
    targets: Targets


def prepare_run(request: RunRequest) -> PreparedRun:
    """Check a request. Reading a large inventory takes a second or two: done before the
    transaction begins, it keeps no connection waiting.

    Raises:
        InvalidRequest: fields that are wrong.
    """
    return PreparedRun(request, validate(request, cpu=clock.thread_cpu))


def launch_run(
    connection: Connection,
    run: RunRequest | PreparedRun,
    *,
    principal: str,
    uuid: UUID,
    idempotency_key: str | None = None,
    route: str = "runs",
    cipher: Cipher,
    launch_type: str = "manual",
    organization: str = "Default",
    summarized: bool = False,
) -> Launched:
    """Make the job of a playbook run.

    Args:
        run: the request, or what :func:`prepare_run` made of it.
        principal: who asks; shown as ``launched_by``, and the owner of the idempotency key.
        uuid: made by the caller before, so that it can look the job up when the outcome of the
            commit is unknown.
        idempotency_key: the same key, route and request by the same principal is the same job.
        cipher: encrypts ``secret_vars``.
        organization: name of the tenant, which exists.
        summarized: whether a summary is kept with its events, as REST v1 wants it.

    Raises:
        InvalidRequest: fields that are wrong; nothing is stored.
        Conflict: ``content_missing``, ``key_reused`` or ``in_progress``.
    """
    prepared = run if isinstance(run, PreparedRun) else prepare_run(run)
    request = prepared.request
    job_id: int = connection.execute(
        text("SELECT nextval(pg_get_serial_sequence('job', 'id'))")
    ).scalar_one()
    if idempotency_key is not None:
        earlier = take_key(
            connection,
            principal=principal,
            route=route,
            key=idempotency_key,
            digests=_request_digests(request, cipher),
            job_id=job_id,
        )
        if earlier is not None:
            return Launched(earlier.job_id, earlier.uuid, False, Owed())
    organization_id, groups = _look_up(connection, request, organization)
    names = {
        "id": job_id,
        "uuid": uuid,
        "launched_by": principal,
        "launch_type": launch_type,
        "preferred_groups": groups,
        "organization_id": organization_id,
    }
    heads = _credentials(connection, request)
    _insert_job(connection, prepared, names)
    credential_rows.note_credentials(connection, [(job_id, c.id, c.name) for c in heads])
    _insert_input(connection, request, job_id, cipher)
    if summarized:
        run_summaries.create(connection, job_id)
    raise_counter(connection)
    return Launched(job_id, uuid, True, wake(Manager.TASK))


def _request_digests(request: RunRequest, cipher: Cipher) -> list[bytes]:
    """Digests of the validated request, the first one to be stored.

    With secrets in it the digest is keyed, so that it tells nothing about them; there is one for
    each key of the key file then, because the first one may be new.
    """
    given = asdict(request)
    if not request.credentials:
        del given["credentials"]  # a key of before there were any stands for the same request
    canonical = json.dumps(given, sort_keys=True).encode()
    if request.secret_vars:
        return cipher.fingerprints(canonical)
    return [hashlib.sha256(canonical).digest()]


def _look_up(
    connection: Connection, request: RunRequest, organization: str
) -> tuple[int, list[int]]:
    """The ids of the tenant and of the run's groups.

    Holds on to the bundle, so that it is not removed before the job refers to it, and sees that the
    files that the run names may be in it.
    """
    inventory_path = request.inventory_path
    groups = request.instance_groups or ("default",)
    row = connection.execute(
        text(
            """
            SELECT paths IS NULL OR paths && CAST(:playbook AS text[]) AS has_playbook,
                paths IS NULL OR paths && CAST(:inventory AS text[]) AS has_inventory,
                (SELECT jsonb_object_agg(name, id) FROM instance_group
                 WHERE name = ANY(:groups)) AS ids,
                (SELECT id FROM organization WHERE name = :organization) AS organization_id
            FROM content_bundle WHERE digest = :digest AND complete
            FOR KEY SHARE SKIP LOCKED  -- one that is being removed is missing already
            """
        ),
        {
            "digest": request.bundle_digest,
            "playbook": candidates(request.playbook),
            "inventory": candidates(inventory_path or "", directory=True),
            "groups": list(groups),
            "organization": organization,
        },
    ).one_or_none()
    if row is None:
        raise Conflict(
            "the content of this run is not stored here: upload it first",
            code="content_missing",
            extra={"missing": [request.bundle_digest]},
        )
    absent = {}
    if not row.has_playbook:
        absent["playbook"] = f"there is no file {request.playbook} in the bundle"
    if inventory_path is not None and not row.has_inventory:
        absent["inventory_path"] = f"there is no {inventory_path} in the bundle"
    if absent:
        raise InvalidRequest(absent)
    ids: dict[str, int] = row.ids or {}
    unknown = [name for name in groups if name not in ids]
    if unknown:
        raise InvalidRequest({"instance_groups": [f"no instance group {n!r}" for n in unknown]})
    return row.organization_id, [ids[name] for name in groups]


def _insert_job(connection: Connection, prepared: PreparedRun, names: Mapping[str, object]) -> None:
    request = prepared.request
    row = {
        **names,
        "kind": Kind.PLAYBOOK,
        "name": request.name or request.playbook,
        "priority": request.priority,
        "task_impact": impact(request, prepared.targets.count),
        "forks": request.forks or DEFAULT_FORKS,
        # nothing to wait for: a run brings its own content and inventory
        "dependencies_processed": True,
        "host_lock": effective_host_lock(request),
        "lock_keys": list(prepared.targets.lock_keys),
        "bundle_digest": request.bundle_digest,
    }
    connection.execute(insert(t.job), row)


def _credentials(
    connection: Connection, request: RunRequest
) -> list[credential_rows.CredentialHead]:
    heads = credential_rows.read_heads(connection, request.credentials)
    problem = credential_rows.chosen_problem(heads, request.credentials)
    if problem:
        raise InvalidRequest({"credentials": problem})
    return [heads[each] for each in request.credentials]


def _insert_input(connection: Connection, request: RunRequest, job_id: int, cipher: Cipher) -> None:
    row: dict[str, Any] = {
        "job_id": job_id,
        "playbook": request.playbook,
        "inventory": request.inventory,
        "inventory_path": request.inventory_path,
        "limit_pattern": request.limit,
        "extra_vars": dict(request.extra_vars),
        "secret_vars": cipher.encrypt(request.secret_vars) if request.secret_vars else None,
        "tags": list(request.tags),
        "skip_tags": list(request.skip_tags),
    }
    row |= {
        name: getattr(request, name)
        for name in (
            "check_mode",
            "diff_mode",
            "verbosity",
            "forks",
            "timeout",
            "idle_timeout",
            "allow_no_hosts",
            "max_unreachable",
            "max_failed",
            "host_key_policy",
        )
    }
    connection.execute(insert(t.job_input), row)
