"""Names of queues and tasks, and the form of every message: ids only, bounded, with a version.

Pure: building and reading messages needs no broker. docs/messages.md lists them for people.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

#: Version of the message form; a message with another one is ignored and counted.
VERSION: Final = 1
#: Most pairs in one message; more starts make more messages.
PAIRS_PER_MESSAGE: Final = 100


class Manager(StrEnum):
    """What a wake-up can be addressed to; also the key of its lease row."""

    DEPENDENCY = "dependency"
    TASK = "task"
    WORKFLOW = "workflow"
    RECOVERY = "recovery"
    SCHEDULES = "schedules"


#: Celery task names.
RUN_MANAGER: Final = "schedulers.run_manager"
START_JOBS: Final = "workers.start_jobs"
CANCEL_JOBS: Final = "workers.cancel_jobs"
#: Fanout exchange with "new events of this job are stored".
LIVE_EXCHANGE: Final = "dispatcher.live"


def manager_queue(manager: Manager) -> str:
    """The queue of one manager, so that triggers of one never hold up another."""
    return f"schedulers.{manager}"


def node_queue(node: str) -> str:
    """The queue of one node."""
    return f"node.{node}"


def wake_token(manager: Manager) -> str:
    """The broker key that coalesces bursts of wake-ups (docs/protocols.md 1.1).

    On Redis every key of ours, this one too, gets the prefix ``dispatcher:``.
    """
    return f"wake:{manager}"


@dataclass(frozen=True)
class Dispatch:
    """One start, or one cancel, of a job on a node."""

    job_id: int
    dispatch_id: UUID
    node: str


@dataclass(frozen=True)
class Owed:
    """What a transaction owes the broker once it is committed.

    Attributes:
        starts: jobs to submit to their nodes.
        cancels: running jobs whose node must read the cancel flag now.
        wakes: managers to wake.
    """

    starts: tuple[Dispatch, ...] = ()
    cancels: tuple[Dispatch, ...] = ()
    wakes: frozenset[Manager] = field(default_factory=frozenset)

    def __add__(self, other: Owed) -> Owed:
        return Owed(
            self.starts + other.starts, self.cancels + other.cancels, self.wakes | other.wakes
        )

    def __bool__(self) -> bool:
        return bool(self.starts or self.cancels or self.wakes)


def wake(*managers: Manager) -> Owed:
    """Nothing but wake-ups."""
    return Owed(wakes=frozenset(managers))


def batches(dispatches: Iterable[Dispatch]) -> list[tuple[str, dict[str, Any]]]:
    """Messages for dispatches: (queue, payload), at most :data:`PAIRS_PER_MESSAGE` pairs each."""
    by_node: dict[str, list[list[Any]]] = defaultdict(list)
    for dispatch in dispatches:
        by_node[dispatch.node].append([dispatch.job_id, str(dispatch.dispatch_id)])
    return [
        (node_queue(node), {"v": VERSION, "jobs": pairs[first : first + PAIRS_PER_MESSAGE]})
        for node, pairs in by_node.items()
        for first in range(0, len(pairs), PAIRS_PER_MESSAGE)
    ]


def read_pairs(payload: Mapping[str, Any]) -> list[tuple[int, UUID]] | None:
    """The (job id, dispatch id) pairs of a message; None for an unknown version or a broken form."""
    jobs = payload.get("jobs")
    if payload.get("v") != VERSION or not isinstance(jobs, Sequence):
        return None
    try:
        return [(int(job_id), UUID(dispatch_id)) for job_id, dispatch_id in jobs]
    except (TypeError, ValueError):
        return None


def manager_payload(manager: Manager, reason: str) -> dict[str, Any]:
    """The message that triggers a manager. ``reason`` is a word for logs (``beat``, ``wake``)."""
    return {"v": VERSION, "manager": str(manager), "reason": reason}


def is_trigger(payload: object, manager: Manager) -> bool:
    """Whether a message triggers this manager, in a form of this version."""
    return (
        isinstance(payload, Mapping)
        and payload.get("v") == VERSION
        and payload.get("manager") == manager
    )


def live_payload(job_id: int, stored: int, final: bool) -> dict[str, Any]:
    """The notification that events up to counter ``stored`` can be read."""
    return {"v": VERSION, "job_id": job_id, "stored": stored, "final": final}
