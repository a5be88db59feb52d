"""The form of workflow jobs in answers."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from dispatcher.api.v2.job_models import UnifiedJob


class WorkflowJobInList(UnifiedJob):
    """A run of a workflow, without what can be large."""

    workflow_job_template: int | None = Field(description="The template it came from.")
    job_template: int | None = Field(description="Of a launch in slices: the job template.")
    is_sliced_job: bool = Field(description="Whether it is a launch of a job template in slices.")
    job_slice_count: int = Field(description="Of a launch in slices: how many.")
    allow_simultaneous: bool = Field(description="Whether runs of its template run at once.")
    inventory: int | None = Field(description="Inventory that all of its nodes are given.")
    limit: str = Field(description="Host pattern that all of its nodes are given.")
    scm_branch: str = Field(description="Always empty.")
    webhook_service: str = Field(description="Always empty.")
    webhook_credential: int | None = Field(description="Always null.")
    webhook_guid: str = Field(description="Always empty.")


class WorkflowJob(WorkflowJobInList):
    """A run of a workflow."""

    extra_vars: str = Field(description="Extra variables of all its nodes, as a text of JSON.")
    artifacts: dict[str, Any] = Field(description="What the jobs of its nodes gave to `set_stats`.")
