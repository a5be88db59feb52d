"""Prompts as fields of the dialect: ``job_tags`` with commas, ``extra_vars`` as a text of JSON.

Inside, they are named as in :mod:`dispatcher.domain.prompts`; here one becomes the other, and what
is wrong with a value is told under the name that the caller used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pydantic import BaseModel, Field

from dispatcher.api.v2.objects import Body
from dispatcher.domain.variables_text import read_variables
from dispatcher.errors import InvalidRequest

#: Prompt → field, where they differ.
_FIELDS: Final = {"tags": "job_tags"}
_LISTS: Final = frozenset({"tags", "skip_tags"})
_NAMES: Final = {field: name for name, field in _FIELDS.items()}


class PromptBody(Body):
    """Prompts as a caller sends them; null is the same as not sent."""

    inventory: int | None = Field(None, description="Number of the inventory.")
    limit: str | None = Field(None, description="Host pattern.")
    job_tags: str | None = Field(None, description="Only tasks with these tags; commas between.")
    skip_tags: str | None = Field(None, description="No tasks with these tags; commas between.")
    job_type: str | None = Field(None, description="`run`, or `check` for check mode.")
    verbosity: int | None = Field(None, description="0 to 5.")
    diff_mode: bool | None = Field(None, description="Show changes of files.")
    scm_branch: str | None = Field(None, description="Branch, tag or commit of the project.")
    forks: int | None = Field(None, description="Hosts worked on at once; 0: Ansible's default.")
    timeout: int | None = Field(None, description="Seconds until it is stopped; 0: never.")
    job_slice_count: int | None = Field(None, description="Jobs that share the hosts.")
    instance_groups: list[int] | None = Field(
        None, description="Numbers of instance groups, in order of preference."
    )
    priority: int | None = Field(None, description="Higher starts first.")
    credentials: list[int] | None = Field(
        None, description="Numbers of the credentials, instead of the template's."
    )


class ShownPrompts(BaseModel):
    """Prompts in answers; null where none was given."""

    extra_data: dict[str, Any] = Field(description="Extra variables that it gives.")
    inventory: int | None = Field(description="Number of the inventory that it gives.")
    limit: str | None = Field(description="Host pattern that it gives.")
    job_tags: str | None = Field(description="Tags that it gives, separated by commas.")
    skip_tags: str | None = Field(description="Tags that it leaves out, separated by commas.")
    job_type: str | None = Field(description="`run` or `check`, if it says so.")
    verbosity: int | None = Field(description="Verbosity that it gives.")
    diff_mode: bool | None = Field(description="Whether changes are shown, if it says so.")
    scm_branch: str | None = Field(description="Branch, tag or commit that it gives.")
    forks: int | None = Field(description="Forks that it gives.")
    timeout: int | None = Field(description="Seconds that it gives.")
    job_slice_count: int | None = Field(description="Number of slices that it gives.")
    instance_groups: list[int] | None = Field(description="Instance groups that it gives.")
    priority: int | None = Field(description="Priority that it gives.")
    credentials: list[int] | None = Field(description="Credentials that it gives.")


#: Fields of prompts but the variables, in the order in which they are shown.
PROMPT_FIELDS: Final = tuple(PromptBody.model_fields)


def read_tags(value: str) -> list[str]:
    """``"a, b"`` → the tags."""
    return [tag.strip() for tag in value.split(",") if tag.strip()]


def read_variables_field(value: object, field: str = "extra_vars") -> dict[str, Any]:
    """Variables that were sent as a mapping, or as a text of JSON or YAML.

    Raises:
        InvalidRequest: the text is neither.
    """
    if isinstance(value, dict):
        return value
    try:
        return read_variables(str(value))
    except ValueError as error:
        raise InvalidRequest({field: str(error)}) from None


def to_prompts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of :class:`PromptBody` that were sent, as prompts."""
    prompts = {}
    for field, value in given.items():
        name = _NAMES.get(field, field)
        if value is not None:
            prompts[name] = read_tags(value) if name in _LISTS else value
    return prompts


def shown_prompts(prompts: Mapping[str, Any]) -> dict[str, Any]:
    """Stored prompts as fields."""
    shown: dict[str, Any] = {"extra_data": prompts.get("extra_vars") or {}}
    for field in PROMPT_FIELDS:
        name = _NAMES.get(field, field)
        value = prompts.get(name)
        shown[field] = ",".join(value) if name in _LISTS and value is not None else value
    return shown


def field_of(prompt: str, variables: str) -> str:
    """What callers call a prompt."""
    return variables if prompt == "extra_vars" else _FIELDS.get(prompt, prompt)


def as_fields(prompts: Mapping[str, Any]) -> dict[str, Any]:
    """Prompts under the names of fields (``ignored_fields``)."""
    return {
        _FIELDS.get(name, name): ",".join(value) if name in _LISTS else value
        for name, value in prompts.items()
    }


def changed_prompts(
    before: Mapping[str, Any], given: Mapping[str, Any], *, variables: str = "extra_data"
) -> dict[str, Any]:
    """Stored prompts with fields laid over them; null takes a prompt away."""
    after = dict(before)
    for field, value in given.items():
        name = "extra_vars" if field == variables else _NAMES.get(field, field)
        if value is None or (name == "extra_vars" and not value):
            after.pop(name, None)
        elif name == "extra_vars":
            after[name] = read_variables_field(value, variables)
        else:
            after[name] = read_tags(value) if name in _LISTS else value
    return after


def split_prompts(
    given: Mapping[str, Any], variables: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields that are prompts (``variables`` among them), and the others."""
    names: Collection[str] = {*PROMPT_FIELDS, variables}
    prompts = {name: value for name, value in given.items() if name in names}
    return prompts, {name: value for name, value in given.items() if name not in names}


@contextmanager
def renamed(names: Mapping[str, str] = _FIELDS) -> Iterator[None]:
    """Tell what is wrong under the names of the dialect."""
    try:
        yield
    except InvalidRequest as error:
        raise InvalidRequest(
            {names.get(name, name): words for name, words in error.fields.items()}
        ) from None
