"""What a run's evidence means: one pure function from what was seen to an outcome.

Never from the return code alone: ansible-playbook's 4 stands for an unreachable host, a YAML error,
an empty playbook, an unknown module and a missing vault secret (docs/running.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dispatcher.domain.outcome import Outcome

_COUNTS = ("ok", "changed", "failures", "dark", "skipped", "rescued", "ignored")
#: ansible-playbook's codes that only sum up hosts: failed, unreachable, play broken off.
_HOST_CODES = 2 | 4 | 8
#: Its codes for what it could not read; 250 is a crash, 255 unknown.
_PARSE_CODES = frozenset({1, 2, 4})
#: Hosts that an explanation names, and characters of an error that it repeats.
_NAMED, _LINE = 5, 500
_FAULTS = {
    "project": Outcome.PROJECT,
    "inventory": Outcome.INVENTORY,
    "credentials": Outcome.CREDENTIALS,
    "refused": Outcome.REFUSED,
    "node_lost": Outcome.NODE_LOST,
    "fenced": Outcome.FENCED,
}


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
        fault_stage: what failed on our side: ``project``, ``inventory``, ``credentials``,
            ``refused``, ``node_lost``, ``fenced`` or ``internal``; empty: nothing. An agent that
            finds a dead supervisor without a result writes ``Evidence(fault_stage="internal", …)``.
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
        survivors: processes of other accounts (``become`` on the node itself) that could not be.
        kind: ``playbook``, ``project_update`` or ``inventory_update``.
        detached: asynchronous tasks that were left running: ``host``, ``job`` and ``task`` of each.
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
    survivors: int = 0
    kind: str = "playbook"
    detached: Sequence[Mapping[str, str]] = field(default_factory=list)


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


@dataclass(frozen=True)
class Decided:
    """How a run ended.

    Attributes:
        explanation: words for people; empty for a plain success.
        playbook_outcome: what the playbook itself had reached when it was stopped; None when it
            was not stopped, or had not come to its recap.
    """

    outcome: Outcome
    explanation: str
    host_rows: tuple[HostRow, ...]
    playbook_outcome: Outcome | None = None


def decide(evidence: Evidence, tolerances: Tolerances) -> Decided:
    """Evidence → outcome. A stop comes first, then our own faults, then what Ansible reported."""
    rows = host_rows(evidence)
    by_itself = _by_itself(evidence, tolerances, rows)
    stopped = _stopped(evidence)
    outcome, words = by_itself if stopped is None else stopped
    if evidence.survivors:
        left = f"{evidence.survivors} processes of another account could not be ended"
        words = f"{words}; {left}" if words else left
    if evidence.detached:
        left = _left_running(evidence.detached)
        words = f"{words}; {left}" if words else left
    reached = None if stopped is None or evidence.stats is None else by_itself[0]
    return Decided(outcome, words, rows, reached)


def host_rows(evidence: Evidence) -> tuple[HostRow, ...]:
    """One row for each host of the recap, by name."""
    stats = evidence.stats or {}
    counted = {word: stats.get(word, {}) for word in _COUNTS}
    names = sorted({*stats.get("processed", {}), *(n for each in counted.values() for n in each)})
    rows = []
    for name in names:
        counts = {word: counted[word].get(name, 0) for word in _COUNTS}
        rows.append(HostRow(name, **counts, failed=bool(counts["failures"] or counts["dark"])))
    return tuple(rows)


_Verdict = tuple[Outcome, str]


def _stopped(evidence: Evidence) -> _Verdict | None:
    killed = f" ({evidence.killed} processes had to be killed)" if evidence.killed else ""
    match evidence.stop:
        case None:
            return None
        case "cancel":
            return Outcome.CANCELED, f"canceled on request{killed}"
        case "shutdown":
            return Outcome.CANCELED, f"canceled: the node was shut down{killed}"
        case "timeout":
            return Outcome.TIMEOUT, f"stopped: the time-out was reached{killed}"
        case "idle":
            return Outcome.IDLE, f"stopped: no output for the length of the idle time-out{killed}"
        case "waits_for_input":
            return Outcome.WAITS_FOR_INPUT, f"waits for input: {evidence.prompt or '?'}"
        case "fenced":
            return Outcome.FENCED, f"stopped: the node's lease had lapsed{killed}"
        case other:
            return Outcome.INTERNAL, f"stopped: {evidence.fault or other}{killed}"


def _by_itself(evidence: Evidence, tolerances: Tolerances, rows: tuple[HostRow, ...]) -> _Verdict:
    if evidence.fault_stage:
        return _FAULTS.get(evidence.fault_stage, Outcome.INTERNAL), evidence.fault
    if evidence.kind != "playbook":
        return _of_update(evidence)
    if evidence.stats is None:
        return _without_recap(evidence, tolerances)
    if evidence.rc is None:
        return Outcome.INCOMPLETE, f"ansible-playbook was ended by signal {evidence.signal}"
    if evidence.rc & ~_HOST_CODES:
        return (
            Outcome.INCOMPLETE,
            f"ansible-playbook ended with {evidence.rc} after its recap{_words(evidence)}",
        )
    if not rows and evidence.plays == evidence.plays_without_hosts:
        return _no_hosts("no play's pattern matches a host", tolerances)
    return _of_hosts(evidence, tolerances, rows)


def _of_update(evidence: Evidence) -> _Verdict:
    """An update is done, or failed at its own stage."""
    if evidence.rc == 0:
        return Outcome.SUCCESSFUL, ""
    if evidence.rc is None:
        return Outcome.INCOMPLETE, f"the update was ended by signal {evidence.signal}"
    stage = Outcome.INVENTORY if evidence.kind == "inventory_update" else Outcome.PROJECT
    words = _first_line(evidence.error) or f"the update ended with {evidence.rc}"
    return stage, words + _where(evidence)


def _where(evidence: Evidence) -> str:
    """The place that an error names, in brackets."""
    where = evidence.error_file
    if evidence.error_line:
        where += f", line {evidence.error_line}"
    if evidence.error_column:
        where += f", column {evidence.error_column}"
    return f" ({where})" if where else ""


def _of_hosts(evidence: Evidence, tolerances: Tolerances, rows: tuple[HostRow, ...]) -> _Verdict:
    failed = [row.host_name for row in rows if row.failures]
    dark = [row.host_name for row in rows if row.dark]
    words = "; ".join(
        f"{len(names)} of {len(rows)} hosts {what}: {_listed(names)}"
        for names, what in ((failed, "failed"), (dark, "unreachable"))
        if names
    )
    if len(failed) > _allowed(tolerances.max_failed, len(rows)):
        return Outcome.FAILED_HOSTS, words
    if len(dark) > _allowed(tolerances.max_unreachable, len(rows)):
        return Outcome.UNREACHABLE, words
    if words:
        return Outcome.SUCCESSFUL, f"{words} (tolerated)"
    if evidence.rc:
        return (
            Outcome.INCOMPLETE,
            f"ansible-playbook ended with {evidence.rc} although no host failed{_words(evidence)}",
        )
    return Outcome.SUCCESSFUL, ""


def _without_recap(evidence: Evidence, tolerances: Tolerances) -> _Verdict:
    """What Ansible reported instead of a recap."""
    error = evidence.error
    if "leaves us with no hosts to target" in error:
        return _no_hosts("the limit matches no host", tolerances)
    if "No inventory was parsed" in error or "parse inventory source" in error:
        return Outcome.INVENTORY, _first_line(error)
    if "no vault secrets found" in error or "Decryption failed" in error:
        return Outcome.CREDENTIALS, _first_line(error)
    if evidence.rc is None:
        if evidence.signal:
            return Outcome.INCOMPLETE, f"ansible-playbook was ended by signal {evidence.signal}"
        return Outcome.INCOMPLETE, "ansible-playbook was not started"
    if evidence.rc in _PARSE_CODES and error and (evidence.error_file or not evidence.plays):
        return Outcome.PARSE_ERROR, _first_line(error) + _where(evidence)
    return (
        Outcome.INCOMPLETE,
        f"ansible-playbook ended with {evidence.rc} and no recap{_words(evidence)}",
    )


def _no_hosts(words: str, tolerances: Tolerances) -> _Verdict:
    if tolerances.allow_no_hosts:
        return Outcome.SUCCESSFUL, f"{words} (tolerated)"
    return Outcome.NO_HOSTS, words


def _allowed(tolerance: str, hosts: int) -> int:
    """How many hosts a tolerance stands for. What cannot be read tolerates none."""
    try:
        if tolerance.endswith("%"):
            return int(float(tolerance[:-1]) * hosts / 100 + 1e-9)
        return int(tolerance)
    except ValueError:
        return 0


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _left_running(detached: Sequence[Mapping[str, str]]) -> str:
    tasks = [f"{each['task']} on {each['host']} (job {each['job']})" for each in detached]
    return f"{len(tasks)} asynchronous tasks were left running: {_listed(tasks)}"


def _words(evidence: Evidence) -> str:
    return f": {_first_line(evidence.error)}" if evidence.error else ""


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:_LINE]
