"""Who holds something, for reasons: the largest few by id, and how many there are."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

#: Most jobs named in a reason.
NAMED = 10


@dataclass(slots=True)
class Holders:
    """The largest holders of something, at most :data:`NAMED` of them, and how many there are."""

    largest: list[tuple[int, int]] = field(default_factory=list)
    total: int = 0

    def add(self, job_id: int, amount: int) -> None:
        """One more holder of ``amount``."""
        self.total += 1
        entry = (-amount, job_id)
        if len(self.largest) < NAMED:
            insort(self.largest, entry)
        elif entry < self.largest[-1]:
            insort(self.largest, entry)
            del self.largest[NAMED:]

    def job_ids(self) -> list[int]:
        """The holders, largest amount first, then by id."""
        return [job_id for _, job_id in self.largest]

    def named(self, reserved_for: int | None) -> dict[str, object]:
        """For a reason: the holders, and the waiting job for which some of it is kept."""
        return {
            "jobs": self.job_ids(),
            "jobs_total": self.total,
            "reserved_for": reserved_for,
        }

    def copy(self) -> Holders:
        """An independent copy."""
        return Holders(self.largest.copy(), self.total)
