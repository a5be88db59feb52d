"""What every stored object has in answers, and what it says of the organization it belongs to."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, Field

from dispatcher.api.v2.resource import Row, url_of

_SAME: Final = ("id", "created", "modified", "name", "description")


class Stored(BaseModel):
    """An object that callers make."""

    id: int = Field(description="Number of the object.")
    type: str = Field(description="Its kind, as a word.")
    url: str = Field(description="Path of this object.")
    related: dict[str, str] = Field(description="Paths of what belongs to it, by name.")
    summary_fields: dict[str, Any] = Field(description="What its related objects are called.")
    created: datetime = Field(description="When it was made.")
    modified: datetime = Field(description="When it last changed.")
    name: str = Field(description="Its name.")
    description: str = Field(description="What it is for, in words.")


def stored(row: Row, kind: str, resource: str) -> dict[str, Any]:
    """The fields that are the same for all."""
    return {
        **{name: row[name] for name in _SAME},
        "type": kind,
        "url": url_of(resource, row["id"]),
    }


def named(object_id: int, name: str) -> dict[str, Any]:
    """A related object in ``summary_fields``."""
    return {"id": object_id, "name": name, "description": ""}


def capabilities(**others: bool) -> dict[str, bool]:
    """What whoever asks may do: every token may do everything."""
    return {"edit": True, "delete": True, **others}
