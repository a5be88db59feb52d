"""Launch: a request becomes a job, with everything the managers need computed once and stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, insert, text
from sqlalchemy.exc import OperationalError

from dispatcher import clock
from dispatcher.broker.messages import Manager, Owed, wake
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
from dispatcher.domain.launch_checks import line_problem
from dispatcher.domain.status import Kind
from dispatcher.errors import Conflict, InvalidRequest
from dispatcher.secrets import Cipher

_KEY_TRIES: Final = 3
_LONGEST_KEY: Final = 255
_LOCK_NOT_AVAILABLE: Final = "55P03"


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


@dataclass(frozen=True)
class Launched:
    """The job of a request.

    Attributes:
        created: false when the idempotency key had launched it before; then nothing is owed.
    """

    job_id: int
    uuid: UUID
    created: bool
    owed: Owed


def launch_run(
    connection: Connection,
    run: RunRequest | PreparedRun,
    *,
    principal: str,
    uuid: UUID,
    idempotency_key: str | None = None,
    route: str = "runs",
    cipher: Cipher,
) -> Launched:
    """Make the job of a playbook run.

    Args:
        run: the request, or what :func:`prepare_run` made of it.
        principal: who asks; shown as ``launched_by``, and the owner of the idempotency key.
        uuid: made by the caller before, so that it can look the job up when the outcome of the
            commit is unknown.
        idempotency_key: the same key, route and request by the same principal is the same job.
        cipher: encrypts ``secret_vars``.

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
        earlier = _claim_key(
            connection,
            (principal, route, _checked_key(idempotency_key)),
            _request_digests(request, cipher),
            job_id,
        )
        if earlier is not None:
            return earlier
    _require_content(connection, request)
    _insert_job(connection, prepared, job_id=job_id, uuid=uuid, principal=principal)
    _insert_input(connection, request, job_id, cipher)
    raise_counter(connection)
    return Launched(job_id, uuid, True, wake(Manager.TASK))


# -- idempotency (docs/protocols.md 9.2)


def _checked_key(key: str) -> str:
    problem = line_problem(key, _LONGEST_KEY)
    if problem is not None or not key.strip():
        raise InvalidRequest({"Idempotency-Key": problem or "must not be empty"})
    return key


def _request_digests(request: RunRequest, cipher: Cipher) -> list[bytes]:
    """Digests of the validated request, the first one to be stored.

    With secrets in it the digest is keyed, so that it tells nothing about them; there is one for
    each key of the key file then, because the first one may be new.
    """
    canonical = json.dumps(asdict(request), sort_keys=True).encode()
    if request.secret_vars:
        return cipher.fingerprints(canonical)
    return [hashlib.sha256(canonical).digest()]


def _claim_key(
    connection: Connection, key: tuple[str, str, str], digests: Sequence[bytes], job_id: int
) -> Launched | None:
    """Take a key for this job; the job that it belongs to already, when it does."""
    names = dict(zip(("principal", "route", "key"), key, strict=True))
    for _ in range(_KEY_TRIES):
        if _insert_key(connection, names, digests[0], job_id):
            return None
        row = connection.execute(
            text(
                "SELECT job_id, request_sha256 FROM idempotency_key"
                " WHERE principal = :principal AND route = :route AND key = :key"
            ),
            names,
        ).one_or_none()
        if row is None:
            continue  # it expired between the two statements
        if bytes(row.request_sha256) not in digests:
            raise Conflict("this Idempotency-Key was used for another request", code="key_reused")
        newest = _newest_retry(connection, row.job_id)
        return Launched(newest[0], newest[1], False, Owed())
    raise _in_progress()


def _insert_key(connection: Connection, names: dict[str, str], digest: bytes, job_id: int) -> bool:
    """Whether the key is ours now. Waits for a transaction that holds it, up to ``lock_timeout``."""
    try:
        inserted = connection.execute(
            text(
                "INSERT INTO idempotency_key (principal, route, key, request_sha256, job_id)"
                " VALUES (:principal, :route, :key, :digest, :job) ON CONFLICT DO NOTHING"
            ),
            names | {"digest": digest, "job": job_id},
        )
    except OperationalError as error:
        if getattr(error.orig, "pgcode", None) == _LOCK_NOT_AVAILABLE:
            raise _in_progress() from None
        raise
    return inserted.rowcount == 1


def _in_progress() -> Conflict:
    return Conflict(
        "the first request with this Idempotency-Key is still being answered",
        code="in_progress",
        retry_after=1,
    )


def _newest_retry(connection: Connection, job_id: int) -> tuple[int, UUID]:
    """The job itself, or the last of its retries after the loss of a node."""
    row = connection.execute(
        text(
            """
            WITH RECURSIVE retries AS (
                SELECT id, uuid, 0 AS step FROM job WHERE id = :job
                UNION ALL
                SELECT job.id, job.uuid, step + 1 FROM job JOIN retries ON job.retry_of = retries.id
            )
            SELECT id, uuid FROM retries ORDER BY step DESC LIMIT 1
            """
        ),
        {"job": job_id},
    ).one()
    return row.id, row.uuid


# -- rows


def _require_content(connection: Connection, request: RunRequest) -> None:
    """Hold on to the bundle, so that it is not removed before the job refers to it, and see that
    the files that the run names may be in it.
    """
    inventory_path = request.inventory_path
    row = connection.execute(
        text(
            """
            SELECT paths IS NULL OR paths && CAST(:playbook AS text[]) AS has_playbook,
                paths IS NULL OR paths && CAST(:inventory AS text[]) AS has_inventory
            FROM content_bundle WHERE digest = :digest AND complete FOR KEY SHARE
            """
        ),
        {
            "digest": request.bundle_digest,
            "playbook": candidates(request.playbook),
            "inventory": candidates(inventory_path or "", directory=True),
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


def _insert_job(
    connection: Connection, prepared: PreparedRun, *, job_id: int, uuid: UUID, principal: str
) -> None:
    request = prepared.request
    connection.execute(
        insert(t.job).values(
            id=job_id,
            uuid=uuid,
            kind=Kind.PLAYBOOK,
            name=request.name or request.playbook,
            organization_id=text("(SELECT id FROM organization WHERE name = 'Default')"),
            launched_by=principal,
            priority=request.priority,
            task_impact=impact(request, prepared.targets.count),
            forks=request.forks or DEFAULT_FORKS,
            preferred_groups=_group_ids(connection, request.instance_groups or ("default",)),
            # nothing to wait for: a run brings its own content and inventory
            dependencies_processed=True,
            host_lock=effective_host_lock(request),
            lock_keys=list(prepared.targets.lock_keys),
            bundle_digest=request.bundle_digest,
        )
    )


def _group_ids(connection: Connection, names: Sequence[str]) -> list[int]:
    rows = connection.execute(
        text("SELECT name, id FROM instance_group WHERE name = ANY(:names)"),
        {"names": list(names)},
    )
    ids = {row.name: int(row.id) for row in rows}
    unknown = [name for name in names if name not in ids]
    if unknown:
        raise InvalidRequest({"instance_groups": [f"no instance group {n!r}" for n in unknown]})
    return [ids[name] for name in names]


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
    connection.execute(insert(t.job_input).values(row))
