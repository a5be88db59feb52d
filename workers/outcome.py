"""What a run's evidence means: one pure function from what was seen to an outcome.

Never from the return code alone: ansible-playbook's 4 stands for an unreachable host, a YAML error,
an empty playbook, an unknown module and a missing vault secret (docs/running.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerances:
    """What the caller accepts as success.

    Attributes:
        max_unreachable, max_failed: hosts, as a number or as a percentage of the play's hosts.
    """

    allow_no_hosts: bool = False
    max_unreachable: str = "0"
    max_failed: str = "0"


@dataclass(frozen=True)
class Evidence:
    """What a supervisor saw of a run.

    Attributes:
        stop: why the supervisor stopped the playbook: ``cancel``, ``shutdown``, ``fenced``,
            ``timeout``, ``idle`` or ``waits_for_input``; None: it ended by itself.
        fault_stage: what failed on our side: ``project``, ``inventory``, ``refused``,
            ``internal``; empty: nothing.
        fault: words for that fault.
        rc: ansible-playbook's return code; None: it was not started, or a signal ended it.
        signal: the signal that ended it, 0 for none.
        runner_status: ansible-runner's word.
        stats: the recap's maps (``ok``, ``failures``, ``dark`` …), each host → count; None: it
            never came.
        plays, plays_without_hosts: plays begun, and those whose pattern matched no host.
        error: the last error that Ansible printed outside of a host's result.
        error_file, error_line, error_column: where it says the error is; "" and 0: it does not.
        prompt: what the playbook asked for when it was stopped for asking.
        killed: processes that had to be killed.
    """

    stop: str | None = None
    fault_stage: str = ""
    fault: str = ""
    rc: int | None = None
    signal: int = 0
    runner_status: str = ""
    stats: Mapping[str, Mapping[str, int]] | None = None
    plays: int = 0
    plays_without_hosts: int = 0
    error: str = ""
    error_file: str = ""
    error_line: int = 0
    error_column: int = 0
    prompt: str = ""
    killed: int = 0


@dataclass(frozen=True)
class HostRow:
    """One host of the recap: the columns of ``job_host_summary``."""

    host_name: str
    ok: int
    changed: int
    failures: int
    dark: int
    skipped: int
    rescued: int
    ignored: int
    failed: bool
