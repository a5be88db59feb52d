"""The runs that this agent knows, from before their claim until their directory is removed.

Nothing here is the truth: the row says what a job is at, the directory what its processes are at.
A new agent builds the same table from both (:mod:`workers.recover_runs`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from uuid import UUID

from dispatcher.domain.outcome import Outcome
from workers.run_dir import RunDir


class Phase(IntEnum):
    """What a run is at, in order; it never goes back, but for a commit that a fail-over lost."""

    CLAIMING = 1  # its directory is there, the claim's commit is not known
    PREPARING = 2  # claimed; the directory is being filled
    READY = 3  # filled; the cancel flag is read once more, then it is started
    STARTED = 4  # a supervisor was asked for, or found
    ENDING = 5  # no supervisor any more; what is left of it is being cleared away
    ENDED = 6  # no process and no secret is left: the final status may be written
    FINAL = 7  # the final status is committed; spool and result are kept a while


class Fate(Enum):
    """What follows once a run is cleared away."""

    FINISH = "its final status is written"
    KEEP = "its row is final already: spool and result are kept a while"
    DROP = "its row is another's or nobody's: the directory is removed"


@dataclass(frozen=True)
class Verdict:
    """An end that the agent decided, because there is no supervisor's result, or against it."""

    outcome: Outcome
    explanation: str


@dataclass(eq=False)
class Run:
    """One dispatch on this node.

    Attributes:
        verdict: set when the agent decided how it ends.
        stop_asked_at: CLOCK_BOOTTIME of the request to stop, None without one.
        deadline: CLOCK_BOOTTIME at which its own time-out must have ended it; None without one.
        offset: spool bytes known to be stored: a hint for when to look, never what a batch is cut
            from. -1: unknown.
        stored: events known to be stored.
        strikes, retry_at: failures to store that are its own, and when to try again.
        clear_at: when to try again to clear it away; 0: nothing failed.
        final_at: CLOCK_BOOTTIME at which it was seen to be final.
    """

    job_id: int
    dispatch_id: UUID
    directory: RunDir
    phase: Phase
    verdict: Verdict | None = None
    fate: Fate = Fate.FINISH
    stop_asked_at: float | None = None
    deadline: float | None = None
    offset: int = -1
    stored: int = 0
    spooled: int = 0
    shipped_at: float = 0.0
    strikes: int = 0
    retry_at: float = 0.0
    clear_at: float = 0.0
    final_at: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def pair(self) -> tuple[int, UUID]:
        """Job and dispatch, as messages and queries name a run."""
        return (self.job_id, self.dispatch_id)

    @property
    def names(self) -> dict[str, object]:
        """For log records."""
        return {"job_id": self.job_id, "dispatch_id": str(self.dispatch_id)}

    def enter(self, phase: Phase, *, only_from: Phase | None = None) -> bool:
        """Go on to a phase; False when somebody else has been faster."""
        with self.lock:
            if self.phase >= phase or (only_from is not None and self.phase is not only_from):
                return False
            self.phase = phase
            return True

    def reopen(self) -> None:
        """Write the final status again: its row is back to running."""
        with self.lock:
            self.phase = Phase.ENDED
            self.fate = Fate.FINISH
            self.offset = -1


def note_job(directory: RunDir, job_id: int) -> None:
    """Leave the job's id in a directory that has no ``job.json`` yet."""
    (directory.path / "claimed").write_text(str(job_id))


def noted_job(directory: RunDir) -> int | None:
    """The job's id that :func:`note_job` left; None when a crash came first."""
    try:
        return int((directory.path / "claimed").read_text())
    except (OSError, ValueError):
        return None


class Runs:
    """All runs by dispatch; its methods may be called from any thread."""

    def __init__(self) -> None:
        self._runs: dict[UUID, Run] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def add(self, run: Run) -> None:
        """Know a run from now on."""
        with self._changed:
            self._runs[run.dispatch_id] = run
            self._changed.notify_all()

    def forget(self, run: Run) -> None:
        """Its directory is gone."""
        with self._changed:
            self._runs.pop(run.dispatch_id, None)
            self._changed.notify_all()

    def get(self, dispatch_id: UUID) -> Run | None:
        """The run of a dispatch."""
        with self._lock:
            return self._runs.get(dispatch_id)

    def all(self) -> list[Run]:
        """Every run, in the order in which they came."""
        with self._lock:
            return list(self._runs.values())

    def at(self, *phases: Phase) -> list[Run]:
        """The runs at one of these phases."""
        return [run for run in self.all() if run.phase in phases]

    def occupied(self) -> int:
        """Runs that take up room: claimed, and with processes still to come or alive."""
        return sum(1 for run in self.all() if run.phase < Phase.ENDED)

    def unfinished(self) -> int:
        """Runs whose final status is still to be written."""
        return sum(1 for run in self.all() if run.phase < Phase.FINAL)

    def moved(self) -> None:
        """Wake whoever waits for the runs to reach something."""
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, reached: Callable[[Iterable[Run]], bool], timeout: float) -> bool:
        """Wait until ``reached`` holds for the runs; False after ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: reached(list(self._runs.values())), timeout)
