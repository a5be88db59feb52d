"""What a manager that walks a backlog brings along: how to read, decide and write its items."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import Connection

from schedulers.core.decision import Strike
from schedulers.passes.manager_pass import Applied

ItemT = TypeVar("ItemT")
DecisionT = TypeVar("DecisionT")
Cursors = Mapping[str, Any]


@dataclass(frozen=True)
class Window(Generic[ItemT]):
    """Items to plan together.

    Attributes:
        cursors: where the next window begins; empty when this one reached the end.
    """

    items: Sequence[ItemT]
    cursors: Cursors = field(default_factory=dict)


class Backlog(Protocol[ItemT, DecisionT]):
    """What a manager decides about, and how; one object lives for one pass.

    Attributes:
        stopped_early: the pass must not go on: a limit of its own was met.
    """

    stopped_early: bool

    def has_more(self, connection: Connection) -> bool:
        """Whether there is something to decide that the change counter does not tell of."""

    def load(self, connection: Connection) -> None:
        """Read everything but the items, in the first window's snapshot."""

    def read(self, connection: Connection, cursors: Cursors, size: int) -> Window[ItemT]:
        """The window that begins at ``cursors`` (empty: the head), of at most ``size`` items."""

    def named(self, connection: Connection, ids: Collection[int]) -> Sequence[ItemT]:
        """Those of the given items that are still to be decided about."""

    def id_of(self, item: ItemT) -> int:
        """An item's id."""

    def decided_about(self, decision: DecisionT) -> int:
        """The id of the item that a decision is about."""

    def plan(self, items: Sequence[ItemT]) -> Sequence[DecisionT | Strike]:
        """Decide; raises without having changed anything."""

    def apply(self, connection: Connection, decisions: Sequence[DecisionT]) -> Applied:
        """Write decisions conditionally."""

    def strike(self, connection: Connection, strikes: Sequence[Strike]) -> Applied:
        """Count a failed try of each, set it aside for a while, end those that had too many."""

    def next_due(self, connection: Connection) -> datetime | None:
        """The earliest time at which a decision could change by the clock alone."""
