"""The statuses of a job and every legal move between them: one table.

The schema's CHECKs and ``docs/job_states.md`` state the same facts; a test compares the three.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """What a job is at. AWX's words; its ``new`` is never used."""

    PENDING = "pending"
    WAITING = "waiting"
    RUNNING = "running"
    SUCCESSFUL = "successful"
    FAILED = "failed"
    ERROR = "error"
    CANCELED = "canceled"


FINAL = frozenset({Status.SUCCESSFUL, Status.FAILED, Status.ERROR, Status.CANCELED})
#: Statuses of a job that a manager must count: it holds capacity, locks and limits.
ACTIVE = frozenset({Status.WAITING, Status.RUNNING})


class Kind(StrEnum):
    """What a job runs."""

    PLAYBOOK = "playbook"
    PROJECT_UPDATE = "project_update"
    INVENTORY_UPDATE = "inventory_update"
    CLEANUP = "cleanup"
    WORKFLOW = "workflow"
    APPROVAL = "approval"


#: Kinds that run on a node; only they are ever waiting.
NODE_KINDS = frozenset({Kind.PLAYBOOK, Kind.PROJECT_UPDATE, Kind.INVENTORY_UPDATE, Kind.CLEANUP})


class Verb(StrEnum):
    """The name of a move; each has one function in ``dispatcher/db/job_moves/``."""

    START = "start"
    BEGIN = "begin"
    REFUSE = "refuse"
    DECIDE = "decide"
    CLAIM = "claim"
    RETURN = "return"
    CANCEL = "cancel"
    FINISH = "finish"


@dataclass(frozen=True)
class Move:
    """A legal move: ``verb`` takes a job of one of ``kinds`` from ``source`` to ``target``."""

    verb: Verb
    source: Status
    target: Status
    kinds: frozenset[Kind]
    meaning: str


_ALL = frozenset(Kind)
_WORKFLOW = frozenset({Kind.WORKFLOW})
_APPROVAL = frozenset({Kind.APPROVAL})

MOVES: tuple[Move, ...] = (
    Move(Verb.START, Status.PENDING, Status.WAITING, NODE_KINDS, "a node was chosen"),
    Move(Verb.BEGIN, Status.PENDING, Status.RUNNING, _WORKFLOW, "a workflow job begins"),
    Move(
        Verb.REFUSE,
        Status.PENDING,
        Status.FAILED,
        _ALL - _APPROVAL,
        "a dependency failed, or the job cannot be started",
    ),
    Move(Verb.DECIDE, Status.PENDING, Status.SUCCESSFUL, _APPROVAL, "approved"),
    Move(Verb.DECIDE, Status.PENDING, Status.FAILED, _APPROVAL, "denied or timed out"),
    Move(Verb.CLAIM, Status.WAITING, Status.RUNNING, NODE_KINDS, "the node took it"),
    Move(
        Verb.RETURN, Status.WAITING, Status.PENDING, NODE_KINDS, "the node is gone or has no room"
    ),
    Move(Verb.CANCEL, Status.PENDING, Status.CANCELED, _ALL, "canceled before a node was chosen"),
    Move(Verb.CANCEL, Status.WAITING, Status.CANCELED, NODE_KINDS, "canceled before the claim"),
    Move(Verb.FINISH, Status.RUNNING, Status.SUCCESSFUL, _ALL - _APPROVAL, "ended well"),
    Move(Verb.FINISH, Status.RUNNING, Status.FAILED, _ALL - _APPROVAL, "a host, or a rule, failed"),
    Move(
        Verb.FINISH, Status.RUNNING, Status.ERROR, _ALL - _APPROVAL, "could not be run to its end"
    ),
    Move(Verb.FINISH, Status.RUNNING, Status.CANCELED, _ALL - _APPROVAL, "stopped on request"),
)
