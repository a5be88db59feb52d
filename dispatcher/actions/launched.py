"""What every launch answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from dispatcher.broker.messages import Owed


@dataclass(frozen=True)
class Launched:
    """The job of a request.

    Attributes:
        created: false when the idempotency key had launched it before; then nothing is owed.
        ignored_fields: prompts that the template does not ask for.
    """

    job_id: int
    uuid: UUID
    created: bool
    owed: Owed
    ignored_fields: Mapping[str, Any] = field(default_factory=dict)
