"""One dispatch on this node's disk: the whole interface between agent and supervisor, format 1.

``<data_dir>/runs/<dispatch_id>/`` is made and fsynced, empty, before the claim. docs/running.md
lists its files, who writes each, and when. Nothing here decides; it reads and writes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from dispatcher import clock
from dispatcher.errors import RunDirectoryError
from workers.durable import draft_of, sync_directory, write_durably
from workers.outcome import Evidence, Tolerances
from workers.run_records import JobSpec as JobSpec
from workers.run_records import Result as Result
from workers.run_records import SupervisorRecord as SupervisorRecord
from workers.tree_removal import remove_tree

FORMAT = 1
RUNS = "runs"


class RunDir:
    """Paths and files of one dispatch. Cheap to make; looks at the disk only when asked.

    Raises:
        RunDirectoryError: from every method whose file cannot be written or understood.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: The run's own copy of the bundle.
        self.project = path / "project"
        self.inventory = path / "inventory"
        self.spool = path / "spool"
        #: ansible-runner's files: partial events, command.
        self.artifacts = path / "artifacts"
        #: Extra vars, HOME and temporary files of the playbook.
        self.private = path / "private"
        #: What an update found: bundle or listing, until it is stored.
        self.update = path / "update"
        #: What a supervisor writes to stdout and stderr: nothing, unless it breaks.
        self.log = path / "supervisor.log"
        #: SSH control sockets: outside, because the name of a socket is short.
        self.control = _control_directory(path)

    @classmethod
    def create(cls, data_dir: Path, dispatch_id: str) -> RunDir:
        """Make an empty run directory, and force it to disk. Comes before the claim.

        Raises:
            RunDirectoryError: it exists already, or the disk refuses.
        """
        runs = data_dir / RUNS
        run_dir = cls(runs / dispatch_id)
        try:
            runs.mkdir(mode=0o700, parents=True, exist_ok=True)
            run_dir.path.mkdir(mode=0o700)
            sync_directory(run_dir.path)
            sync_directory(runs)
        except OSError as error:
            raise RunDirectoryError(f"{run_dir.path}: {error.strerror}") from error
        return run_dir

    @staticmethod
    def all(data_dir: Path) -> list[RunDir]:
        """Every run directory of this node, by name; what a crash left half removed is removed."""
        try:
            entries = sorted((data_dir / RUNS).iterdir())
        except FileNotFoundError:
            return []
        for doomed in (entry for entry in entries if entry.name.startswith(".")):
            remove_tree(doomed)
        return [RunDir(entry) for entry in entries if not entry.name.startswith(".")]

    @property
    def dispatch_id(self) -> str:
        """The dispatch that the directory is named by."""
        return self.path.name

    # -- job.json

    def write_job(self, spec: JobSpec) -> None:
        """Store what is to be run, secrets in clear, readable by this account only."""
        self._write_json("job.json", asdict(spec), fsync=True)

    def read_job(self) -> JobSpec:
        """What is to be run."""
        stored = self._known(JobSpec, self._read_json("job.json"))
        stored |= {name: tuple(stored.get(name, ())) for name in _LISTS}
        try:
            return JobSpec(**stored)
        except TypeError as error:
            raise RunDirectoryError(f"{self.path}/job.json: {error}") from error

    # -- the start

    def take_start(self) -> bool:
        """Win the right to start, or to decide about an unstarted run. True for one caller ever."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            os.close(os.open(self.path / "started", flags, 0o600))
        except FileExistsError:
            return False
        except OSError as error:
            raise RunDirectoryError(f"{self.path}: {error.strerror}") from error
        return True

    def is_started(self) -> bool:
        """Whether somebody has won :meth:`take_start`."""
        return (self.path / "started").exists()

    # -- the supervisor's life

    def hold_alive(self) -> int | None:
        """Lock ``alive`` for this process's life: the descriptor, or None if another holds it.

        Close-on-exec. A fork that does not exec must close it, or it outlives the supervisor.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self.path / "alive", flags, 0o600)
        # somebody who only asks holds the lock for an instant
        deadline = clock.monotonic() + 2
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                if clock.monotonic() > deadline:
                    os.close(descriptor)
                    return None
                clock.sleep(0.01)

    def is_alive(self) -> bool:
        """Whether a supervisor holds ``alive``."""
        try:
            descriptor = os.open(self.path / "alive", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def sign_of_life(self) -> int | None:
        """A number that changes every second while the supervisor works (mtime in ns); None: no file.

        Compare it with what was read before; the wall clock that it comes from may step.
        """
        try:
            return os.stat(self.path / "alive").st_mtime_ns
        except FileNotFoundError:
            return None

    def write_supervisor(self, record: SupervisorRecord) -> None:
        """Say which process supervises."""
        self._write_json("supervisor.json", asdict(record))

    def read_supervisor(self) -> SupervisorRecord | None:
        """Which process supervises, or did; None before it has said so."""
        if not (self.path / "supervisor.json").exists():
            return None
        stored = self._known(SupervisorRecord, self._read_json("supervisor.json"))
        return SupervisorRecord(**stored)

    # -- from the agent to the supervisor

    def request_stop(self, reason: str) -> None:
        """Ask for the stop: ``cancel``, ``fenced`` or ``shutdown``. The first reason stands."""
        if not (self.path / "cancel").exists():
            self._write("cancel", reason.encode())

    def stop_requested(self) -> str | None:
        """The reason word of a requested stop."""
        try:
            return (self.path / "cancel").read_text().strip() or "cancel"
        except FileNotFoundError:
            return None

    def write_shipped(self, offset: int) -> None:
        """Say up to which spool offset the database has everything."""
        self._write("shipped", str(offset).encode())

    def shipped(self) -> int:
        """The spool offset up to which the database has everything."""
        try:
            return int((self.path / "shipped").read_bytes())
        except (FileNotFoundError, ValueError):
            return 0

    # -- the end

    def write_result(self, result: Result) -> None:
        """Store what was found: fsynced, in one step. The spool's end record comes before."""
        self._write_json("result.json", asdict(result), fsync=True)

    def read_result(self) -> Result | None:
        """What the supervisor found; None while there is no result."""
        if not (self.path / "result.json").exists():
            return None
        stored = self._known(Result, self._read_json("result.json"))
        try:
            stored["evidence"] = Evidence(**self._known(Evidence, stored["evidence"]))
            stored["tolerances"] = Tolerances(**self._known(Tolerances, stored["tolerances"]))
            return Result(**stored)
        except (KeyError, TypeError) as error:
            raise RunDirectoryError(f"{self.path}/result.json: {error}") from error

    def wipe_secrets(self, *, keep_update: bool = False) -> None:
        """Remove all that may hold a secret; spool, result and signs of life stay.

        Args:
            keep_update: what an update found stays too: the agent stores it first.

        ``job.json`` keeps what is no secret. Safe to call again, and after a crash in the middle.
        """
        # a kill between writing and renaming leaves the draft, with everything in it
        draft_of(self.path / "job.json").unlink(missing_ok=True)
        if (self.path / "job.json").exists():
            spec = self.read_job()
            bare = replace(
                spec, inventory=None, extra_vars={}, secret_vars={}, masked=(), credentials=()
            )
            self._write_json("job.json", asdict(bare))
        for tree in (self.private, self.artifacts, self.project, self.inventory, self.control):
            remove_tree(tree)
        if not keep_update:
            remove_tree(self.update)

    def remove(self) -> None:
        """Remove the whole directory: renamed away first, so that nobody finds half of it."""
        remove_tree(self.control)
        doomed = self.path.with_name(f".{self.path.name}.removed")
        try:
            os.rename(self.path, doomed)
        except FileNotFoundError:
            pass
        remove_tree(doomed)

    # -- files

    def _write_json(self, name: str, content: Mapping[str, Any], *, fsync: bool = False) -> None:
        text = json.dumps({"format": FORMAT, **content}, ensure_ascii=True)
        self._write(name, text.encode(), fsync=fsync)

    def _write(self, name: str, content: bytes, *, fsync: bool = False) -> None:
        try:
            if fsync:
                write_durably(self.path / name, content)
                return
            temporary = self.path / f".{name}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(content)
            os.rename(temporary, self.path / name)
        except OSError as error:
            raise RunDirectoryError(f"{self.path / name}: {error.strerror}") from error

    def _read_json(self, name: str) -> dict[str, Any]:
        try:
            stored = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError) as error:
            raise RunDirectoryError(f"{self.path / name}: {error}") from error
        found = stored.get("format") if isinstance(stored, dict) else None
        if not isinstance(stored, dict) or found != FORMAT:
            newer = isinstance(found, int) and found > FORMAT
            words = f"format {found}, of a newer version of this package" if newer else "no format"
            raise RunDirectoryError(
                f"{self.path / name}: {words}; this version reads format {FORMAT}"
            )
        return stored

    @staticmethod
    def _known(kind: type[_Record], stored: Mapping[str, Any]) -> dict[str, Any]:
        """What this version knows of a record; a newer one may have written more."""
        names = {each.name for each in fields(kind)}
        return {name: value for name, value in stored.items() if name in names}


#: Fields of a job that are lists in its file.
_LISTS = ("tags", "skip_tags", "masked", "credentials")
_Record = TypeVar("_Record", JobSpec, SupervisorRecord, Result, Evidence, Tolerances)


def _control_directory(path: Path) -> Path:
    """``<data_dir>/c/<8 hex>``, or below /tmp when that leaves no room for a socket's name.

    OpenSSH adds a slash, Ansible's 10 characters and a temporary suffix of 17 to it; 107 fit.
    """
    word = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
    control = path.parent.parent / "c" / word
    if len(os.fsencode(control)) <= 107 - 28:
        return control
    return Path(f"/tmp/dispatcher-{os.geteuid()}/{word}")
