"""What is written into a run directory, as values: the job, its supervisor, its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workers.outcome import Evidence, Tolerances


@dataclass(frozen=True)
class JobSpec:
    """All that a supervisor needs. Holds decrypted secrets until :meth:`RunDir.wipe_secrets`.

    Attributes:
        job_id, dispatch_id, node: who runs what, where.
        lease_file: the node's lease (:mod:`workers.lease_file`).
        playbook … host_key_policy: the columns of ``job_input`` by name; ``secret_vars`` decrypted.
        masked: further values to mask in output and events; those of ``secret_vars`` always are.
        allow_templating: extra vars may hold templates; else they are passed as unsafe text.
        timeout: seconds from the supervisor's start, preparation included; 0: none.
        idle_timeout: seconds without output; 0: none (the agent puts the node's setting in).
        prompt_timeout: seconds of silence after what looks like a prompt.
        stop_grace: seconds between SIGTERM and SIGKILL.
        spool_quota_bytes: spooled but not shipped bytes at which the playbook is paused.
        known_hosts: the node's file of SSH host keys; empty: ``known_hosts`` in the data directory.
        kind: ``playbook``, ``project_update`` or ``inventory_update``.
        project: what a project update fetches: ``id`` and the columns of ``job_project``.
        scm_key_file: the node's SSH key for git; empty: none.
        max_unpacked: most bytes of a project's files.
        credentials: ``kind``, ``name`` and ``inputs`` of each, decrypted.
    """

    job_id: int
    dispatch_id: str
    node: str
    lease_file: str
    playbook: str
    inventory: str | None = None
    inventory_path: str | None = None
    limit_pattern: str = ""
    extra_vars: Mapping[str, Any] = field(default_factory=dict)
    secret_vars: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    check_mode: bool = False
    diff_mode: bool = False
    verbosity: int = 0
    forks: int = 0
    timeout: float = 0
    idle_timeout: float = 0
    allow_no_hosts: bool = False
    max_unreachable: str = "0"
    max_failed: str = "0"
    host_key_policy: str = "accept-new"
    masked: tuple[str, ...] = ()
    allow_templating: bool = False
    prompt_timeout: float = 5.0
    stop_grace: float = 10.0
    spool_quota_bytes: int = 1_000_000_000
    known_hosts: str = ""
    kind: str = "playbook"
    project: Mapping[str, Any] = field(default_factory=dict)
    scm_key_file: str = ""
    max_unpacked: int = 1_000_000_000
    credentials: tuple[Mapping[str, Any], ...] = ()

    @property
    def tolerances(self) -> Tolerances:
        """What the caller tolerates, as :func:`workers.outcome.decide` takes it."""
        return Tolerances(self.allow_no_hosts, self.max_unreachable, self.max_failed)


@dataclass(frozen=True)
class SupervisorRecord:
    """Which process a supervisor is; a pid alone says nothing after a restart.

    Attributes:
        pid_start: field 22 of ``/proc/<pid>/stat``.
        started_at: CLOCK_BOOTTIME seconds; the job's time-out counts from here.
    """

    pid: int
    pid_start: int
    boot_id: str
    started_at: float


@dataclass(frozen=True)
class Result:
    """What a supervisor found; written last, after the spool's end record.

    Attributes:
        evidence, tolerances: all that :func:`workers.outcome.decide` needs.
        artifacts: ``set_stats`` data; that of single hosts under ``_per_host``.
        events_total: the count of the spool's end record.
        started, finished: ISO 8601, wall clock of the node.
        update: what an update found: ``revision`` and ``bundle_digest``.
    """

    job_id: int
    dispatch_id: str
    evidence: Evidence
    tolerances: Tolerances
    artifacts: dict[str, Any]
    events_total: int
    spool_bytes: int
    started: str
    finished: str
    update: dict[str, Any] = field(default_factory=dict)
