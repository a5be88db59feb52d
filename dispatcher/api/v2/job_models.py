"""The form of a job in answers. What the dialect has and we do not is false, null or empty."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field


class LaunchedBy(BaseModel):
    """Who asked for a job."""

    id: int | None = Field(description="Always null.")
    name: str = Field(description="Name of the token that was used.")
    type: str = Field(description="Always `token`.")
    url: str = Field(description="Always empty.")


class UnifiedJob(BaseModel):
    """What jobs of every kind have in answers."""

    id: int = Field(description="Number of the job.")
    type: str = Field(description="Its kind, as a word: `job` for a playbook run.")
    url: str = Field(description="Path of this object.")
    related: dict[str, str] = Field(description="Paths of what belongs to it, by name.")
    summary_fields: dict[str, Any] = Field(description="What its related objects are called.")
    created: datetime = Field(description="When it was accepted (the database's clock).")
    modified: datetime = Field(description="When its status last changed.")
    name: str = Field(description="Its name; by default the playbook's.")
    description: str = Field(description="Always empty.")
    uuid: UUID = Field(description="Made before the job was stored; unique.")
    unified_job_template: int | None = Field(description="The template it came from.")
    launch_type: str = Field(
        description="How it came to be: `manual`, `relaunch`, `scheduled`, `workflow` or `dependency`."
    )
    launched_by: LaunchedBy = Field(description="Who asked for it.")
    status: str = Field(
        description="`pending`, `waiting`, `running`, or final: `successful`, `failed`, `error`,"
        " `canceled`."
    )
    failed: bool = Field(description="Whether it ended in any other way than `successful`.")
    outcome: str | None = Field(description="Why it ended as it did; null until then.")
    exit_code: int | None = Field(
        description="What `dispatcher run` exits with for this outcome; null until the end."
    )
    started: datetime | None = Field(description="When its node took it, or a workflow began.")
    finished: datetime | None = Field(description="When its final status was written.")
    canceled_on: datetime | None = Field(description="When its cancel was first asked for.")
    cancel_requested: bool = Field(description="Whether a cancel was asked for.")
    elapsed: float = Field(description="Seconds from start to end, or until now.")
    job_explanation: str = Field(
        description="Pending: why it waits, in words. Ended: what happened, in words."
    )
    pending_reason: dict[str, Any] | None = Field(
        description="Pending: code and numbers of the reason; null until a manager has looked at it."
    )
    organization: int = Field(description="Organization that it belongs to.")
    priority: int = Field(description="Higher starts first.")


class JobInList(UnifiedJob):
    """A job, without what can be large."""

    execution_node: str = Field(description="Name of its node; empty before one was chosen.")
    controller_node: str = Field(description="Always empty: every manager may act for every job.")
    execution_environment: int | None = Field(description="Always null.")
    instance_group: int | None = Field(description="Group through which it was started.")
    work_unit_id: str | None = Field(description="Id of its dispatch to the node.")
    job_type: str = Field(description="`run`, or `check` for check mode.")
    inventory: int | None = Field(description="Its inventory; null: the run brought its own.")
    project: int | None = Field(description="Its project; null: the run brought its content.")
    playbook: str = Field(description="Path of the playbook in the bundle.")
    bundle_digest: str | None = Field(description="Digest of the content bundle.")
    inventory_path: str | None = Field(
        description="Path of the inventory in the bundle; null when its text was sent."
    )
    scm_branch: str = Field(description="Branch, tag or commit of its project.")
    scm_revision: str = Field(description="Revision that it runs, once that is known.")
    forks: int = Field(description="Hosts worked on at once; 0: Ansible's default.")
    limit: str = Field(description="Host pattern; empty: all hosts.")
    verbosity: int = Field(description="0 to 5.")
    job_tags: str = Field(description="Tags, separated by commas.")
    skip_tags: str = Field(description="Tags that are left out, separated by commas.")
    force_handlers: bool = Field(description="Always false.")
    start_at_task: str = Field(description="Always empty.")
    timeout: int = Field(description="Seconds after which it is stopped; 0: never.")
    idle_timeout: int = Field(description="Seconds without output after which it is stopped.")
    diff_mode: bool = Field(description="Whether changes of files are shown.")
    use_fact_cache: bool = Field(description="Always false.")
    allow_simultaneous: bool = Field(description="Whether jobs of its template run at once.")
    allow_no_hosts: bool = Field(description="Whether a run that matches no host is successful.")
    max_unreachable: str = Field(description="Unreachable hosts that are tolerated.")
    max_failed: str = Field(description="Failed hosts that are tolerated.")
    host_lock: str = Field(description="`none`, `shared` or `exclusive`.")
    host_key_policy: str = Field(description="`accept-new` or `strict`.")
    task_impact: int = Field(description="Capacity that it takes.")
    job_template: int | None = Field(description="The job template it came from.")
    job_slice_number: int = Field(description="Which slice of a sliced launch it is; 0: none.")
    job_slice_count: int = Field(description="Slices of the launch it belongs to.")
    passwords_needed_to_start: list[str] = Field(description="Always empty.")
    webhook_service: str = Field(description="Always empty.")
    webhook_credential: int | None = Field(description="Always null.")
    webhook_guid: str = Field(description="Always empty.")
    event_processing_finished: bool = Field(
        description="Whether every event that will ever come is stored: true with a final status."
    )
    events_complete: bool = Field(
        description="Whether no event is missing; false at the end only after the loss of a node."
    )
    events_stored: int = Field(description="Events that can be read now.")
    retry_of: int | None = Field(description="The job that this one repeats after a lost node.")
    retried_by: int | None = Field(
        description="The job that repeats this one, which was lost with its node."
    )


class Job(JobInList):
    """A job with everything there is to say about it."""

    extra_vars: str = Field(description="Extra variables as JSON text, without secret ones.")
    artifacts: dict[str, Any] = Field(description="What the playbook gave to `set_stats`.")
    playbook_outcome: str | None = Field(
        description="What the playbook itself had reached when the job was canceled."
    )
    job_args: str = Field(description="Always empty: command lines are not stored.")
    job_cwd: str = Field(description="Always empty.")
    job_env: dict[str, str] = Field(description="Always empty: environments are not stored.")
    result_traceback: str = Field(description="Always empty; see `job_explanation`.")
