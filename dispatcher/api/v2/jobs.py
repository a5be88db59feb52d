"""``jobs/`` and ``jobs/N/``: what was asked for, and how far it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Response
from pydantic import TypeAdapter

from dispatcher.api.auth import Caller, CallerParameter
from dispatcher.api.v2.job_kinds import TYPES, job_url
from dispatcher.api.v2.job_models import Job, JobInList
from dispatcher.api.v2.resource import (
    ListQueryParameter,
    Page,
    Row,
    filters_of,
    read_list,
    url_of,
)
from dispatcher.db import job_queries
from dispatcher.db.job_state import JobState, read_state
from dispatcher.domain.outcome import FACTS, Outcome
from dispatcher.domain.status import FINAL, Kind, Status
from dispatcher.errors import NotFound
from schedulers.core import reasons

router = APIRouter(prefix="/api/v2/jobs", tags=["jobs"])

JobId = Annotated[int, Path(description="Number of the job.", ge=1, lt=2**63)]

_JOB: Final = TypeAdapter(Job)

#: What the dialect has and we do not.
_ABSENT: Final[Mapping[str, Any]] = {
    "description": "",
    "controller_node": "",
    "execution_environment": None,
    "force_handlers": False,
    "start_at_task": "",
    "use_fact_cache": False,
    "passwords_needed_to_start": [],
    "webhook_service": "",
    "webhook_credential": None,
    "webhook_guid": "",
}
_ABSENT_IN_DETAIL: Final[Mapping[str, Any]] = {
    "job_args": "",
    "job_cwd": "",
    "job_env": {},
    "result_traceback": "",
}
#: Fields that are the row's columns.
_SAME: Final = (
    "id",
    "created",
    "modified",
    "name",
    "uuid",
    "launch_type",
    "status",
    "outcome",
    "started",
    "finished",
    "canceled_on",
    "cancel_requested",
    "pending_reason",
    "bundle_digest",
    "inventory_path",
    "host_lock",
    "priority",
    "task_impact",
    "events_complete",
    "events_stored",
    "retry_of",
    "retried_by",
    "allow_simultaneous",
)
#: Fields that are columns of another name.
_RENAMED: Final[Mapping[str, str]] = {
    "job_template": "job_template_id",
    "project": "project_id",
    "inventory": "inventory_id",
    "organization": "organization_id",
    "instance_group": "instance_group_id",
    "job_slice_number": "slice_number",
    "job_slice_count": "slice_count",
}
#: Objects that a job belongs to: field → where they are found.
_BELONGS: Final[Mapping[str, str]] = {
    "job_template": "job_templates",
    "workflow_job_template": "workflow_job_templates",
    "project": "projects",
    "inventory": "inventories",
}
#: Inputs of the run, with what a job without a playbook shows instead.
_INPUTS: Final[Mapping[str, Any]] = {
    "playbook": "",
    "forks": 0,
    "verbosity": 0,
    "timeout": 0,
    "idle_timeout": 0,
    "diff_mode": False,
    "allow_no_hosts": False,
    "max_unreachable": "0",
    "max_failed": "0",
    "host_key_policy": "accept-new",
}


def render_in_list(row: Row) -> dict[str, Any]:
    """A job as lists show it."""
    outcome = row["outcome"]
    return {
        **_ABSENT,
        **{name: row[name] for name in _SAME},
        **{name: row[name] if row[name] is not None else v for name, v in _INPUTS.items()},
        **{name: row[column] for name, column in _RENAMED.items()},
        "type": TYPES[Kind(row["kind"])],
        "url": job_url(Kind(row["kind"]), row["id"]),
        "related": _related(row),
        "summary_fields": summary_fields(row),
        "launched_by": {"id": None, "name": row["launched_by"], "type": "token", "url": ""},
        "failed": row["status"] in FINAL and row["status"] != Status.SUCCESSFUL,
        "exit_code": None if outcome is None else FACTS[Outcome(outcome)].exit_code,
        "elapsed": round(float(row["elapsed"]), 3),
        "job_explanation": explanation_of(row["status"], row["pending_reason"], row["explanation"]),
        "execution_node": row["node_name"] or "",
        "work_unit_id": None if row["dispatch_id"] is None else str(row["dispatch_id"]),
        "job_type": "check" if row["check_mode"] else "run",
        "unified_job_template": row["job_template_id"] or row["workflow_job_template_id"],
        "workflow_job_template": row["workflow_job_template_id"],
        "scm_branch": row["scm_branch"] or "",
        "scm_revision": row["scm_revision"] or "",
        "limit": row["limit_pattern"] or "",
        "job_tags": ",".join(row["tags"] or ()),
        "skip_tags": ",".join(row["skip_tags"] or ()),
        "event_processing_finished": row["status"] in FINAL,
    }


def render(row: Row) -> dict[str, Any]:
    """A job with everything there is to say about it."""
    return {
        **render_in_list(row),
        **_ABSENT_IN_DETAIL,
        "extra_vars": json.dumps(row["extra_vars"] or {}, ensure_ascii=False),
        "artifacts": row["artifacts"] or {},
        "playbook_outcome": row["playbook_outcome"],
    }


def answer(row: Row, *, status_code: int = 200, located: bool = False) -> Response:
    """The answer with a whole job. Made here, because every follower asks for it again and again:
    FastAPI would check the same form in one more hop to a thread.
    """
    body = _JOB.dump_json(_JOB.validate_python(render(row)))
    headers = {"Location": job_url(Kind(row["kind"]), row["id"])} if located else None
    return Response(body, status_code, headers, media_type="application/json")


def explanation_of(status: str, pending_reason: Mapping[str, Any] | None, explanation: str) -> str:
    """Why a pending job waits, or what happened to one that has ended, in words."""
    if status == Status.PENDING and pending_reason is not None:
        return reasons.words(str(pending_reason["code"]), pending_reason.get("data") or {})
    return explanation


def _related(row: Row) -> dict[str, str]:
    url = url_of("jobs", row["id"])
    related = {
        name: f"{url}{name}/"
        for name in ("job_events", "stdout", "job_host_summaries", "cancel", "stream", "explain")
    }
    if row["instance_group_id"] is not None:
        related["instance_group"] = url_of("instance_groups", row["instance_group_id"])
    if row["bundle_digest"] is not None:
        related["content"] = url_of("content", row["bundle_digest"])
    if row["kind"] == Kind.PLAYBOOK:
        related["relaunch"] = f"{url}relaunch/"
    if row["retry_of"] is not None:
        related["retry_of"] = url_of("jobs", row["retry_of"])
    if row["retried_by"] is not None:
        related["retried_by"] = url_of("jobs", row["retried_by"])
    return related | parents(row)


def parents(row: Row) -> dict[str, str]:
    """Paths of what a job belongs to."""
    found = {
        name: url_of(resource, row[f"{name}_id"])
        for name, resource in _BELONGS.items()
        if row[f"{name}_id"] is not None
    }
    if row["workflow_job_id"] is not None:
        found["source_workflow_job"] = url_of("workflow_jobs", row["workflow_job_id"])
    return found


def summary_fields(row: Row) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "organization": {
            "id": row["organization_id"],
            "name": row["organization_name"],
            "description": "",
        },
        "user_capabilities": {"delete": False, "start": True},
        "credentials": row["credentials"] or [],
    }
    if row["instance_group_id"] is not None:
        summary["instance_group"] = {
            "id": row["instance_group_id"],
            "name": row["instance_group_name"],
            "is_container_group": False,
        }
    for name in _BELONGS:
        if row[f"{name}_id"] is not None:
            summary[name] = {
                "id": row[f"{name}_id"],
                "name": row[f"{name}_name"] or "",
                "description": "",
            }
    if row["workflow_job_id"] is not None:
        summary["source_workflow_job"] = {"id": row["workflow_job_id"]}
    return summary


def state_of(caller: Caller, job_id: int) -> JobState:
    """How far a job is.

    Raises:
        NotFound: there is no such job.
    """
    with caller.reading() as connection:
        state = read_state(connection, job_id)
    if state is None:
        raise NotFound
    return state


@router.get(
    "/",
    summary="List the jobs",
    response_model=Page[JobInList],
    openapi_extra=filters_of(job_queries.job_listing()),
)
def list_jobs(caller: CallerParameter, query: ListQueryParameter) -> dict[str, Any]:
    """Playbook runs, oldest first unless `order_by` says otherwise."""
    with caller.reading() as connection:
        return read_list(
            connection,
            query,
            job_queries.job_listing(),
            lambda rows: [render_in_list(row) for row in rows],
        )


@router.get("/{job_id}/", summary="One job", response_model=Job)
def get_job(caller: CallerParameter, job_id: JobId) -> Response:
    """Status and everything else of a job: one read by primary key."""
    with caller.reading() as connection:
        row = job_queries.read_job(connection, job_id)
    if row is None:
        raise NotFound
    return answer(row)
