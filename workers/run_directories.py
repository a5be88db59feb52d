"""What a run directory shows, and what it means beside the job's row: a pure decision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from dispatcher.db.node_rows import NodeJob
from dispatcher.domain.status import FINAL
from dispatcher.errors import RunDirectoryError
from workers.run_dir import RunDir
from workers.runs import noted_job


@dataclass(frozen=True)
class Found:
    """What a run directory shows.

    Attributes:
        filled: ``job.json`` is there: a supervisor may have been asked for.
        started: somebody has won the start.
        alive: a supervisor lives.
        result: it has left a result.
    """

    filled: bool
    started: bool
    alive: bool
    result: bool


class Todo(Enum):
    """What is to be done with a run directory."""

    PREPARE = "fill it again: nobody can have asked for a supervisor"
    GIVE_UP = "win the start and end it: a supervisor may have been asked for"
    ADOPT = "watch its supervisor"
    END = "store what is left and its final status"
    KEEP = "its final status is stored"
    DROP = "kill, wipe, remove"


def decide(found: Found, row: NodeJob | None, dispatch_id: UUID, node_id: int) -> Todo:
    """What is to be done with a directory that no run of this agent belongs to."""
    if row is not None and row.dispatch_id == dispatch_id and row.status in FINAL:
        return Todo.KEEP
    if row is None or not row.runs(dispatch_id, node_id):
        return Todo.DROP
    if found.alive:
        return Todo.ADOPT
    if found.started or found.result:
        return Todo.END
    return Todo.GIVE_UP if found.filled else Todo.PREPARE


def look(directory: RunDir) -> Found:
    """What a directory shows; a supervisor locks ``alive`` before it can win the start."""
    started = directory.is_started()
    return Found(
        filled=(directory.path / "job.json").exists(),
        started=started,
        alive=directory.is_alive(),
        result=(directory.path / "result.json").exists(),
    )


def dispatch_of(directory: RunDir) -> UUID | None:
    """The dispatch that a directory is named by; None for a name that is none."""
    try:
        return UUID(directory.dispatch_id)
    except ValueError:
        return None


def job_of(directory: RunDir) -> int | None:
    """The job that a directory belongs to; None when a crash came before it was noted."""
    try:
        return directory.read_job().job_id
    except RunDirectoryError:
        return noted_job(directory)
