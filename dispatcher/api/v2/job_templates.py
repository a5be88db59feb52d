"""``job_templates/``: playbooks with all that they are run with, saved to be launched again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection

from dispatcher.actions import save_template as save
from dispatcher.actions.save_credential import put_into_template
from dispatcher.api.v2 import objects
from dispatcher.api.v2.credentials import CREDENTIAL
from dispatcher.api.v2.job_template_models import (
    ASKS,
    NEVER_ASKED,
    JobTemplate,
    JobTemplateChanges,
    NewJobTemplate,
)
from dispatcher.api.v2.object_form import capabilities, named, stored
from dispatcher.api.v2.prompt_fields import read_tags, read_variables_field, renamed
from dispatcher.api.v2.resource import ROOT, Row, url_of
from dispatcher.broker.messages import Owed
from dispatcher.db.credential_queries import credentials_of_template
from dispatcher.db.template_queries import template_listing
from dispatcher.domain.variables_text import show_variables

#: Fields that are the row's columns.
_SAME: Final = (
    "playbook",
    "job_type",
    "scm_branch",
    "forks",
    "verbosity",
    "diff_mode",
    "timeout",
    "job_slice_count",
    "priority",
    "host_lock",
    "allow_simultaneous",
    "max_concurrent_jobs",
    "retries_on_node_loss",
    "instance_groups",
    "credentials",
    *ASKS,
)
#: What the dialect has and we do not.
_ABSENT: Final[dict[str, Any]] = {
    "survey_enabled": False,
    "become_enabled": False,
    "force_handlers": False,
    "start_at_task": "",
    "use_fact_cache": False,
    "execution_environment": None,
    "custom_virtualenv": None,
    "host_config_key": "",
    "prevent_instance_group_fallback": False,
    "webhook_service": "",
    "webhook_credential": None,
    **dict.fromkeys(NEVER_ASKED, False),
}
#: Paths below a template's own.
_BELOW: Final = ("launch", "schedules", "survey_spec", "credentials")
_PARENTS: Final = {
    "organization": "organizations",
    "project": "projects",
    "inventory": "inventories",
}


def render_one(row: Row) -> dict[str, Any]:
    """A job template as answers show it."""
    shown = stored(row, "job_template", "job_templates")
    present = [name for name in _PARENTS if row[f"{name}_id"] is not None]
    return {
        **_ABSENT,
        **shown,
        **{name: row[name] for name in _SAME},
        **{name: row[f"{name}_id"] for name in _PARENTS},
        "limit": row["limit_pattern"],
        "extra_vars": show_variables(row["extra_vars"]),
        "job_tags": ",".join(row["tags"]),
        "skip_tags": ",".join(row["skip_tags"]),
        "related": {
            **{name: url_of(_PARENTS[name], row[f"{name}_id"]) for name in present},
            **{name: f"{shown['url']}{name}/" for name in _BELOW},
            "jobs": f"{ROOT}jobs/?job_template={row['id']}",
        },
        "summary_fields": {
            **{name: named(row[f"{name}_id"], row[f"{name}_name"]) for name in present},
            "user_capabilities": capabilities(start=True, schedule=True, copy=False),
            "labels": {"count": 0, "results": []},
        },
    }


def _render(_: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [render_one(row) for row in rows]


def _values(given: dict[str, Any]) -> dict[str, Any]:
    """Columns, with tags and variables in the form in which they are stored."""
    values = dict(given)
    if "extra_vars" in values:
        values["extra_vars"] = read_variables_field(values["extra_vars"])
    if "job_tags" in values:
        values["tags"] = read_tags(values.pop("job_tags"))
    if "skip_tags" in values:
        values["skip_tags"] = read_tags(values["skip_tags"])
    return values


def _create(connection: Connection, given: dict[str, Any], _by: str) -> tuple[int, Owed]:
    with renamed():
        return save.create_template(connection, _values(given)), Owed()


def _change(connection: Connection, template_id: int, given: dict[str, Any], _by: str) -> Owed:
    with renamed():
        return save.change_template(connection, template_id, _values(given))


def _delete(connection: Connection, template_id: int) -> Owed:
    save.delete_template(connection, template_id)
    return Owed()


JOB_TEMPLATE: Final = objects.Noun(
    word="job template",
    resource="job_templates",
    key="job_template_id",
    tag="job_templates",
    model=JobTemplate,
    new=NewJobTemplate,
    changes=JobTemplateChanges,
    subject=save.TEMPLATE,
    listing=template_listing,
    render=_render,
    create=_create,
    change=_change,
    delete=_delete,
)


def _put_credential(
    connection: Connection, template_id: int, credential_id: int, member: bool
) -> Owed:
    put_into_template(connection, template_id, credential_id, member)
    return Owed()


router = JOB_TEMPLATE.router()
objects.add_routes(router, JOB_TEMPLATE)
objects.add_list_inside(
    router,
    JOB_TEMPLATE,
    "credentials",
    CREDENTIAL,
    credentials_of_template,
    what="the credentials of a template's jobs",
)
objects.add_members(
    router, JOB_TEMPLATE, "credentials", _put_credential, what="a template's credentials"
)
