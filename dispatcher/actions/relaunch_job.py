"""Relaunch of a playbook job: the same inputs once more, on all hosts or on those that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

from dispatcher.actions.launch import launch_run
from dispatcher.actions.launch_template import TemplateLaunch, launch_job_templates
from dispatcher.actions.launched import Launched
from dispatcher.db.change import raise_counter
from dispatcher.db.credential_rows import credentials_of
from dispatcher.domain.launch import RunRequest
from dispatcher.domain.status import FINAL, Kind
from dispatcher.errors import Conflict, DispatcherError, InvalidRequest, NotFound
from dispatcher.secrets import Cipher

#: Which hosts a relaunch runs on.
HOSTS: Final = ("all", "failed")
#: Inputs that a run and its request call the same.
_SAME: Final = (
    "playbook",
    "inventory",
    "inventory_path",
    "extra_vars",
    "check_mode",
    "diff_mode",
    "forks",
    "verbosity",
    "timeout",
    "idle_timeout",
    "allow_no_hosts",
    "max_unreachable",
    "max_failed",
    "host_key_policy",
    "bundle_digest",
    "name",
    "host_lock",
    "priority",
)


def count_hosts(connection: Connection, job_id: int) -> dict[str, int]:
    """How many hosts a job has results of, by the words of :data:`HOSTS`."""
    row = connection.execute(
        text(
            "SELECT count(*) AS total, count(*) FILTER (WHERE failed) AS failed"
            " FROM job_host_summary WHERE job_id = :job"
        ),
        {"job": job_id},
    ).one()
    return {"all": row.total, "failed": row.failed}


def relaunch_job(
    connection: Connection,
    job_id: int,
    *,
    principal: str,
    hosts: str = "all",
    uuid: UUID,
    cipher: Cipher,
) -> Launched:
    """Launch a playbook job again. A job of a template takes playbook, project and host lock from
    the template as it is now, everything else from the job.

    Args:
        hosts: ``all``: those that the job was for; ``failed``: those on which it failed.

    Raises:
        NotFound: no such playbook job.
        InvalidRequest: the inputs are not accepted any more, by name.
        Conflict: ``not_final``, ``template_gone``, ``no_failed_hosts``, ``content_missing``.
    """
    if hosts not in HOSTS:
        raise InvalidRequest({"hosts": f"one of {', '.join(HOSTS)}"})
    row = _read(connection, job_id)
    if row["status"] not in FINAL:
        raise Conflict(f"job {job_id} has not ended: {row['status']}", code="not_final")
    limit = row["limit_pattern"] if hosts == "all" else _failed_hosts(connection, job_id)
    if row["job_template_id"] is not None:
        return _of_template(connection, row, limit, principal=principal, uuid=uuid, cipher=cipher)
    if row["inventory"] is None and row["inventory_path"] is None:
        raise Conflict(f"the template of job {job_id} was deleted", code="template_gone")
    secrets = row["secret_vars"]
    request = RunRequest(
        **{name: row[name] for name in _SAME},
        limit=limit,
        secret_vars={} if secrets is None else cipher.decrypt(bytes(secrets)),
        tags=tuple(row["tags"]),
        skip_tags=tuple(row["skip_tags"]),
        instance_groups=tuple(_groups(connection, row["preferred_groups"]).values()),
        credentials=tuple(credentials_of(connection, job_id)),
    )
    return launch_run(
        connection, request, principal=principal, uuid=uuid, cipher=cipher, launch_type="relaunch"
    )


def _read(connection: Connection, job_id: int) -> Mapping[str, Any]:
    row = connection.execute(
        text(
            "SELECT job.id, job.name, status, priority, host_lock, job.bundle_digest,"
            " preferred_groups, job_template_id, inventory_id, slice_number, slice_count,"
            " job_input.*, coalesce(scm_branch, '') AS scm_branch FROM job"
            " JOIN job_input ON job_input.job_id = job.id"
            " LEFT JOIN job_project ON job_project.job_id = job.id"
            " WHERE job.id = :job AND kind = :kind"
        ),
        {"job": job_id, "kind": str(Kind.PLAYBOOK)},
    )
    found = row.mappings().one_or_none()
    if found is None:
        raise NotFound(f"no playbook job {job_id}")
    return dict(found)


def _failed_hosts(connection: Connection, job_id: int) -> str:
    """A pattern of the hosts on which the job failed.

    Raises:
        Conflict: there are none; names what can be chosen.
    """
    names = connection.scalars(
        text(
            "SELECT host_name FROM job_host_summary WHERE job_id = :job AND failed ORDER BY host_name"
        ),
        {"job": job_id},
    ).all()
    if not names:
        raise Conflict(
            f"job {job_id} has no failed hosts",
            code="no_failed_hosts",
            extra={"choices": ["all"]},
        )
    return ",".join(names)


def _groups(connection: Connection, ids: list[int]) -> dict[int, str]:
    """Those of the groups that still exist, in order."""
    rows = connection.execute(
        text("SELECT id, name FROM instance_group WHERE id = ANY(CAST(:ids AS bigint[]))"),
        {"ids": ids},
    )
    known = {row.id: row.name for row in rows}
    return {each: known[each] for each in ids if each in known}


def _of_template(
    connection: Connection,
    row: Mapping[str, Any],
    limit: str,
    *,
    principal: str,
    uuid: UUID,
    cipher: Cipher,
) -> Launched:
    prompts = {
        "extra_vars": row["extra_vars"],
        "limit": limit,
        "tags": row["tags"],
        "skip_tags": row["skip_tags"],
        "job_type": "check" if row["check_mode"] else "run",
        "verbosity": row["verbosity"],
        "diff_mode": row["diff_mode"],
        "scm_branch": row["scm_branch"],
        "forks": row["forks"],
        "timeout": row["timeout"],
        "job_slice_count": 1,
        "priority": row["priority"],
        "instance_groups": list(_groups(connection, row["preferred_groups"])),
        "credentials": credentials_of(connection, row["id"]),
    }
    if row["inventory_id"] is not None:
        prompts["inventory"] = row["inventory_id"]
    launch = TemplateLaunch(
        row["job_template_id"],
        prompts,
        principal,
        "relaunch",
        slice_number=row["slice_number"],
        slice_count=row["slice_count"],
        uuid=uuid,
        exact=True,
    )
    (found,) = launch_job_templates(connection, [launch], cipher=cipher)
    if isinstance(found, DispatcherError):
        raise found
    raise_counter(connection)
    return found
