"""The form of schedules, in answers and in requests."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from dispatcher.api.v2.object_form import Stored
from dispatcher.api.v2.objects import Body
from dispatcher.api.v2.prompt_fields import PromptBody, ShownPrompts

_KINDS = "`job` (a job template), `workflow_job`, `project_update` or `inventory_update`"
#: A time in a body: JSON has none, so its text is read.
_Moment = Annotated[datetime | None, Field(strict=False)]


class ScheduleLaunch(BaseModel):
    """What came of a due time."""

    due: datetime = Field(description="When it was due.")
    launched: datetime = Field(description="When it was launched.")
    job: int | None = Field(description="Number of the job; null: there is none.")
    url: str | None = Field(description="Path of the job.")
    error: str = Field(description="Why there is no job.")


class Schedule(Stored, ShownPrompts):
    """What is launched, and when."""

    organization: int = Field(description="Organization of what it launches.")
    unified_job_template: int = Field(description="Number of what it launches.")
    unified_job_type: str = Field(description=f"What it launches: {_KINDS}.")
    rrule: str = Field(description="iCalendar rule: DTSTART, RRULE, EXDATE; empty with `cron`.")
    cron: str = Field(description="Cron expression; empty with `rrule`.")
    timezone: str = Field(description="Zone whose clocks count.")
    starts: datetime | None = Field(description="Never due before this time.")
    ends: datetime | None = Field(description="Never due after this time.")
    enabled: bool = Field(description="Whether it launches anything.")
    disabled_reason: str = Field(description="Why it was disabled by itself.")
    misfire: str = Field(description="What an outage missed: `skip`, `once` or `all`.")
    misfire_limit: int = Field(description="With `all`: most launches that are made up for.")
    next_run: datetime | None = Field(description="When it is due next; null while disabled.")
    last_run: datetime | None = Field(description="When it was due last.")
    last_launches: list[ScheduleLaunch] = Field(
        description="What came of the last due times, the newest first."
    )


class Rule(Body):
    """When something is due."""

    rrule: str | None = Field(
        None,
        description="iCalendar rule: DTSTART, RRULE (several), EXDATE, with spaces or line ends"
        " between; this or `cron`.",
    )
    cron: str | None = Field(
        None,
        description="Cron expression of five fields; this or `rrule`.",
        examples=["30 2 * * 1-5"],
    )
    timezone: str = Field(
        "UTC",
        description="Zone of a cron expression, and of the times of a rule that name none.",
        examples=["Europe/Berlin"],
    )
    starts: _Moment = Field(None, description="Never due before this time (with a zone).")
    ends: _Moment = Field(None, description="Never due after this time (with a zone).")


class ScheduleChanges(Rule, PromptBody):
    """What can be changed of a schedule."""

    name: str = Field("", description="Unique in its organization.", examples=["nightly"])
    description: str = Field("", description="What it is for, in words.")
    extra_data: dict[str, Any] | str | None = Field(
        None, description="Extra variables: a mapping, or a text of JSON or YAML."
    )
    enabled: bool = Field(True, description="It launches something when it is due.")
    misfire: str = Field(
        "once",
        description="What an outage missed: `skip`: nothing; `once`: one launch for all; `all`: each,"
        " the newest `misfire_limit` of them.",
    )
    misfire_limit: int = Field(10, description="With `all`: most launches that are made up for.")


class NewScheduleInside(ScheduleChanges):
    """A schedule to be made for one template, project or source."""

    name: str = Field(description="Unique in its organization.", examples=["nightly"])


class NewSchedule(NewScheduleInside):
    """A schedule to be made."""

    unified_job_template: int = Field(description="Number of what it launches.", examples=[1])
    unified_job_type: str = Field("job", description=f"What it launches: {_KINDS}.")


class PreviewBody(Rule):
    """A rule to be tried."""

    count: int = Field(10, ge=1, le=100, description="How many due times are wanted.")


class Preview(BaseModel):
    """When a rule is due next."""

    utc: list[datetime] = Field(description="The next due times, in UTC.")
    local: list[datetime] = Field(description="The same by the clocks of the rule's zone.")
