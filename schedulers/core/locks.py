"""Who holds which key, exclusively or shared, and which waiting job may not be overtaken on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from schedulers.core.fairness import Place

#: Most shared holders remembered for one key; more are not needed to know that it is held.
REMEMBERED = 10


@dataclass(slots=True)
class Conflict:
    """What stands in a job's way.

    Attributes:
        holders: active jobs that hold some of its keys.
        ahead: waiting jobs that come first for some of them.
        cooling: jobs that have ended and keep some of them for a while.
        keys: the contested keys.
    """

    holders: set[int] = field(default_factory=set)
    ahead: set[int] = field(default_factory=set)
    cooling: set[int] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)


@dataclass(slots=True)
class LockTable:
    """Keys and their holders, by job id; claims of jobs that waited too long, by place.

    Two jobs collide on a key unless both share it. A claim is a lock that a waiting job will
    take: it stops jobs that come after it in the order, and nobody else.
    """

    exclusive: dict[str, int] = field(default_factory=dict)
    shared: dict[str, tuple[int, ...]] = field(default_factory=dict)
    exclusive_claims: dict[str, Place] = field(default_factory=dict)
    shared_claims: dict[str, Place] = field(default_factory=dict)
    cooling: dict[str, int] = field(default_factory=dict)

    def hold(self, job_id: int, mode: str, keys: Iterable[str]) -> None:
        """The job holds the keys from now on. ``none`` holds nothing."""
        if mode == "exclusive":
            for key in keys:
                self.exclusive[key] = min(job_id, self.exclusive.get(key, job_id))
        elif mode == "shared":
            for key in keys:
                holders = {*self.shared.get(key, ()), job_id}
                self.shared[key] = tuple(sorted(holders)[:REMEMBERED])

    def cool(self, job_id: int, keys: Iterable[str]) -> None:
        """The job was stopped by force: what it had begun on a host may still run there."""
        for key in keys:
            self.cooling[key] = min(job_id, self.cooling.get(key, job_id))

    def claim(self, place: Place, mode: str, keys: Iterable[str]) -> None:
        """The waiting job at this place is not to be overtaken on the keys by later ones."""
        if mode == "none":
            return
        claims = self.exclusive_claims if mode == "exclusive" else self.shared_claims
        for key in keys:
            claims[key] = min(place, claims.get(key, place))

    def conflict(self, place: Place, mode: str, keys: Iterable[str]) -> Conflict | None:
        """Who keeps the job at this place from taking the keys; None: nobody."""
        if mode == "none":
            return None
        found = Conflict()
        for key in keys:
            holders = [self.exclusive[key]] if key in self.exclusive else []
            claims = [self.exclusive_claims.get(key, place)]
            if mode == "exclusive":
                holders += self.shared.get(key, ())
                claims.append(self.shared_claims.get(key, place))
            ahead = [claim[-1] for claim in claims if claim < place]
            cooling = [self.cooling[key]] if key in self.cooling else []
            if holders or ahead or cooling:
                found.holders.update(holders)
                found.ahead.update(ahead)
                found.cooling.update(cooling)
                found.keys.add(key)
        return found if found.keys else None

    def copy(self) -> LockTable:
        """An independent copy."""
        return LockTable(
            self.exclusive.copy(),
            self.shared.copy(),
            self.exclusive_claims.copy(),
            self.shared_claims.copy(),
            self.cooling.copy(),
        )
