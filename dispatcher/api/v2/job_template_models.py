"""The form of job templates, in answers and in requests."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, Field

from dispatcher.api.v2.object_form import Stored
from dispatcher.api.v2.objects import Body


class Asks(BaseModel):
    """What a template asks for at launch."""

    ask_variables_on_launch: bool = Field(description="Whether a launch may give extra variables.")
    ask_limit_on_launch: bool = Field(description="Whether a launch may give a limit.")
    ask_tags_on_launch: bool = Field(description="Whether a launch may give tags.")
    ask_skip_tags_on_launch: bool = Field(
        description="Whether a launch may give tags that are left out."
    )
    ask_job_type_on_launch: bool = Field(description="Whether a launch may give the job type.")
    ask_verbosity_on_launch: bool = Field(description="Whether a launch may give the verbosity.")
    ask_diff_mode_on_launch: bool = Field(
        description="Whether a launch may give whether changes are shown."
    )
    ask_inventory_on_launch: bool = Field(description="Whether a launch may give the inventory.")
    ask_scm_branch_on_launch: bool = Field(description="Whether a launch may give the branch.")
    ask_forks_on_launch: bool = Field(description="Whether a launch may give the forks.")
    ask_timeout_on_launch: bool = Field(description="Whether a launch may give the time-out.")
    ask_job_slice_count_on_launch: bool = Field(
        description="Whether a launch may give the number of slices."
    )
    ask_instance_groups_on_launch: bool = Field(
        description="Whether a launch may give instance groups."
    )
    ask_priority_on_launch: bool = Field(description="Whether a launch may give the priority.")
    ask_credential_on_launch: bool = Field(description="Whether a launch may give credentials.")


class AllAsks(Asks):
    """The same, with what the dialect has and no template asks for here."""

    ask_execution_environment_on_launch: bool = Field(description="Always false.")
    ask_labels_on_launch: bool = Field(description="Always false.")


class AskSwitches(Body):
    """What a template is to ask for at launch."""

    ask_variables_on_launch: bool = Field(False, description="A launch may give extra variables.")
    ask_limit_on_launch: bool = Field(False, description="A launch may give a limit.")
    ask_tags_on_launch: bool = Field(False, description="A launch may give tags.")
    ask_skip_tags_on_launch: bool = Field(
        False, description="A launch may give tags that are left out."
    )
    ask_job_type_on_launch: bool = Field(False, description="A launch may give the job type.")
    ask_verbosity_on_launch: bool = Field(False, description="A launch may give the verbosity.")
    ask_diff_mode_on_launch: bool = Field(
        False, description="A launch may give whether changes are shown."
    )
    ask_inventory_on_launch: bool = Field(False, description="A launch may give the inventory.")
    ask_scm_branch_on_launch: bool = Field(False, description="A launch may give the branch.")
    ask_forks_on_launch: bool = Field(False, description="A launch may give the forks.")
    ask_timeout_on_launch: bool = Field(False, description="A launch may give the time-out.")
    ask_job_slice_count_on_launch: bool = Field(
        False, description="A launch may give the number of slices."
    )
    ask_instance_groups_on_launch: bool = Field(
        False, description="A launch may give instance groups."
    )
    ask_priority_on_launch: bool = Field(False, description="A launch may give the priority.")
    ask_credential_on_launch: bool = Field(False, description="A launch may give credentials.")


#: The switches.
ASKS: Final = tuple(Asks.model_fields)
#: Switches of the dialect that are always off.
NEVER_ASKED: Final = tuple(AllAsks.__annotations__)


class JobTemplate(Stored, AllAsks):
    """A playbook with all that it is run with."""

    organization: int = Field(description="Organization that it belongs to.")
    project: int | None = Field(description="Project that the playbook is in.")
    playbook: str = Field(description="Path of the playbook in the project.")
    inventory: int | None = Field(description="Inventory that it runs on; null: given at launch.")
    job_type: str = Field(description="`run`, or `check` for check mode.")
    scm_branch: str = Field(description="Branch, tag or commit; empty: the project's.")
    limit: str = Field(description="Host pattern; empty: all hosts.")
    extra_vars: str = Field(description="Extra variables as a text of JSON.")
    job_tags: str = Field(description="Only tasks with these tags; commas between.")
    skip_tags: str = Field(description="No tasks with these tags; commas between.")
    forks: int = Field(description="Hosts worked on at once; 0: Ansible's default.")
    verbosity: int = Field(description="0 to 5.")
    diff_mode: bool = Field(description="Whether changes of files are shown.")
    timeout: int = Field(description="Seconds after which a job is stopped; 0: never.")
    job_slice_count: int = Field(description="Jobs that share the hosts of a launch.")
    priority: int = Field(description="Higher starts first.")
    host_lock: str = Field(description="`none`, `shared` or `exclusive`.")
    allow_simultaneous: bool = Field(description="Whether jobs of it run at the same time.")
    max_concurrent_jobs: int = Field(description="Most jobs of it at once; 0: no limit.")
    retries_on_node_loss: int = Field(description="How often a job is repeated whose node is lost.")
    instance_groups: list[int] = Field(
        description="Instance groups of its jobs, in order of preference; empty: the organization's."
    )
    credentials: list[int] = Field(
        description="Credentials of its jobs; changed in `job_templates/N/credentials/`."
    )
    survey_enabled: bool = Field(description="Always false.")
    become_enabled: bool = Field(description="Always false: the playbook says it.")
    force_handlers: bool = Field(description="Always false.")
    start_at_task: str = Field(description="Always empty.")
    use_fact_cache: bool = Field(description="Always false.")
    execution_environment: int | None = Field(description="Always null.")
    custom_virtualenv: str | None = Field(description="Always null.")
    host_config_key: str = Field(description="Always empty.")
    prevent_instance_group_fallback: bool = Field(description="Always false.")
    webhook_service: str = Field(description="Always empty.")
    webhook_credential: int | None = Field(description="Always null.")


class JobTemplateChanges(AskSwitches):
    """What can be changed of a job template."""

    name: str = Field("", description="Unique in its organization.", examples=["deploy"])
    description: str = Field("", description="What it is for, in words.")
    organization: int = Field(
        0, description="Number of its organization; its project's by default."
    )
    project: int | None = Field(None, description="Number of the project that the playbook is in.")
    playbook: str = Field(
        "", description="Path of the playbook in the project, with `/`.", examples=["site.yml"]
    )
    inventory: int | None = Field(None, description="Number of the inventory.")
    job_type: str = Field("run", description="`run`, or `check` for check mode.")
    scm_branch: str = Field("", description="Branch, tag or commit; empty: the project's.")
    limit: str = Field("", description="Host pattern; empty: all hosts.")
    extra_vars: dict[str, Any] | str = Field(
        "", description="Extra variables: a mapping, or a text of JSON or YAML."
    )
    job_tags: str = Field("", description="Only tasks with these tags; commas between.")
    skip_tags: str = Field("", description="No tasks with these tags; commas between.")
    forks: int = Field(0, description="Hosts worked on at once; 0: Ansible's default (5).")
    verbosity: int = Field(0, description="0 to 5.")
    diff_mode: bool = Field(False, description="Show changes of files.")
    timeout: int = Field(0, description="Seconds after which a job is stopped; 0: never.")
    job_slice_count: int = Field(1, description="Jobs that share the hosts of a launch.")
    priority: int = Field(0, description="Higher starts first.")
    host_lock: str = Field(
        "none",
        description="`none`; `shared` or `exclusive`: no other run changes these hosts meanwhile.",
    )
    allow_simultaneous: bool = Field(False, description="Jobs of it may run at the same time.")
    max_concurrent_jobs: int = Field(0, description="Most jobs of it at once; 0: no limit.")
    retries_on_node_loss: int = Field(
        0, description="How often a job is repeated whose node is lost."
    )
    instance_groups: list[int] = Field(
        default_factory=list,
        description="Instance groups of its jobs, in order of preference.",
    )


class NewJobTemplate(JobTemplateChanges):
    """A job template to be made."""

    name: str = Field(description="Unique in its organization.", examples=["deploy"])
    playbook: str = Field(description="Path of the playbook in the project.", examples=["site.yml"])
