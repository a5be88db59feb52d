"""The words for why a job is pending, rendered from a reason's code and data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedulers.core.decision import Reason


def words(code: str, data: Mapping[str, Any]) -> str:
    """One English sentence for people."""
    return f"{code}: {dict(data)}"


def cause(reason: Reason) -> tuple[object, ...]:
    """What a reason is about, without its numbers.

    A stored reason is rewritten when its cause changes. Its numbers change in every pass, and a
    backlog of thousands must not be rewritten for them; the explain call computes them anew.
    """
    return (reason.code, reason.data.get("group"))
