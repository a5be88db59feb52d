"""What nodes and schedules launch, under the words of the dialect.

The dialect numbers templates of every kind in one series; here each kind has its own, so beside
``unified_job_template`` the kind is said by ``unified_job_type``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dispatcher.api.v2.resource import url_of
from dispatcher.errors import InvalidRequest


@dataclass(frozen=True)
class TemplateKind:
    """One kind of what can be launched.

    Attributes:
        job_type: the dialect's word for the jobs that it makes.
        resource: where it is found; empty of an approval, which has no page of its own.
    """

    job_type: str
    resource: str


#: Our word → the kind.
TEMPLATE_KINDS: Final[Mapping[str, TemplateKind]] = {
    "job_template": TemplateKind("job", "job_templates"),
    "workflow_job_template": TemplateKind("workflow_job", "workflow_job_templates"),
    "project": TemplateKind("project_update", "projects"),
    "inventory_source": TemplateKind("inventory_update", "inventory_sources"),
    "approval": TemplateKind("workflow_approval", ""),
}
#: The dialect's word for jobs → our word for what makes them, as nodes launch it.
NODE_WORDS: Final = {kind.job_type: word for word, kind in TEMPLATE_KINDS.items()}
#: What can be launched by itself.
JOB_TYPES: Final = tuple(each.job_type for each in TEMPLATE_KINDS.values() if each.resource)


@dataclass(frozen=True)
class ShownTemplate:
    """What an answer says of what is launched."""

    related: Mapping[str, str] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)


def shown_template(
    word: str, template_id: int | None, names: Mapping[tuple[str, int], str]
) -> ShownTemplate:
    """The path and name of what is launched; nothing when it is gone.

    Args:
        names: of what still exists.
    """
    if template_id is None or (word, template_id) not in names:
        return ShownTemplate()
    kind = TEMPLATE_KINDS[word]
    return ShownTemplate(
        {"unified_job_template": url_of(kind.resource, template_id)},
        {
            "unified_job_template": {
                "id": template_id,
                "name": names[word, template_id],
                "description": "",
                "unified_job_type": kind.job_type,
            }
        },
    )


def word_of(job_type: object) -> str:
    """Our word for what makes jobs of this type.

    Raises:
        InvalidRequest: no such type, or one that cannot be launched by itself.
    """
    if job_type not in JOB_TYPES:
        raise InvalidRequest({"unified_job_type": f"one of {', '.join(JOB_TYPES)}"})
    return NODE_WORDS[str(job_type)]
