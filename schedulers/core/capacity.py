"""The ledger: what nodes and groups have left, carried through a pass from window to window."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from schedulers.core.snapshot import ActiveJob, PendingJob, World


@dataclass
class Ledger:
    """What is left of every node and group, and who holds the rest.

    Attributes:
        world: what it was made from.
        starts: starts decided in this pass.
        stopped_early: a job that could start was held because of the pass's start limit; the
            pass asks for another.
    """

    world: World
    starts: int = 0
    stopped_early: bool = False
    active: list[ActiveJob] = field(default_factory=list)

    @classmethod
    def of(cls, world: World) -> Ledger:
        """The ledger at the beginning of a pass."""
        return cls(world, active=list(world.active))

    def copy(self) -> Ledger:
        """An independent ledger with the same entries."""
        return deepcopy(self)

    def remaining(self, node_id: int) -> int:
        capacity = next(n.capacity for n in self.world.nodes if n.id == node_id)
        return capacity - sum(a.task_impact for a in self.active if a.node_id == node_id)

    def jobs_on(self, node_id: int) -> int:
        return sum(1 for a in self.active if a.node_id == node_id)

    def charge(self, job: PendingJob, node_id: int | None, group_id: int | None) -> None:
        self.active.append(
            ActiveJob(
                job.id,
                job.kind,
                "waiting",  # type: ignore[arg-type]
                job.organization_id,
                node_id,
                group_id,
                job.task_impact,
                job.forks,
                job.host_lock,
                job.lock_keys,
            )
        )
