"""What became of every job: the database, the witness file, the disk and the process table agree."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy import Row, text

from dispatcher.domain.status import FINAL
from tests.faults.cluster import Cluster
from tests.faults.injections import Injected
from tests.faults.load import SECRET, Accepted

#: Database connections of a worker node at rest.
_NODE_CONNECTIONS: Final = 4
_JOBS: Final = """
SELECT j.id, j.name, j.status, j.outcome, j.explanation, j.dispatch_id::text AS dispatch,
       j.events_complete, j.created, j.finished,
       coalesce(e.stored, 0) AS stored, e.first, e.last, coalesce(e.starts, 0) AS starts
FROM job AS j
LEFT JOIN (
    SELECT job_id, count(*) AS stored, min(counter) AS first, max(counter) AS last,
           count(*) FILTER (WHERE event = 'playbook_on_start') AS starts
    FROM job_event GROUP BY job_id
) AS e ON e.job_id = j.id
"""


class Submitted(Protocol):
    """Jobs to be audited: what was accepted, and the file that their playbooks wrote."""

    accepted: list[Accepted]
    witness: Path


class Witness:
    """What the playbooks wrote themselves: when each job began and ended."""

    def __init__(self, file: Path) -> None:
        self.begins: dict[str, list[float]] = {}
        self.ends: dict[str, list[float]] = {}
        for line in file.read_text().splitlines():
            moment, what, word = line.split()
            times = self.begins if what == "begin" else self.ends
            times.setdefault(word, []).append(float(moment))

    def begun(self, word: str) -> int:
        """How often a job's playbook really began."""
        return len(self.begins.get(word, ()))

    def ended(self, word: str) -> int:
        """How often it came to its end."""
        return len(self.ends.get(word, ()))


def audit(cluster: Cluster, load: Submitted, injected: list[Injected]) -> list[str]:
    """Everything that is not as it must be, in words; call it when all jobs had time to end."""
    with cluster.engine.connect() as connection:
        rows = {row.id: row for row in connection.execute(text(_JOBS))}
    harmed = {name for each in injected for name in each.harmed}
    witness = Witness(load.witness)
    findings = [words for each in injected for words in each.findings]
    for accepted in load.accepted:
        row = rows.get(accepted.job_id)
        if row is None:
            findings.append(f"job {accepted.job_id} ({accepted.word}) was accepted and is gone")
            continue
        findings += [
            f"job {row.id} ({row.name}): {words}"
            for words in _job_findings(accepted, row, witness, row.dispatch in harmed)
        ]
    findings += _overlaps(witness)
    findings += _left_behind(cluster)
    findings += _faults_of_the_api(cluster)
    findings += _connections(cluster)
    return findings


def _job_findings(
    accepted: Accepted, row: Row[Any], witness: Witness, harmed: bool
) -> Iterator[str]:
    if row.status not in FINAL:
        yield f"is {row.status}, not final"
        return
    if row.outcome != accepted.work.outcome and not (harmed and row.status != "successful"):
        yield f"ended as {row.outcome} ({row.explanation}), not as {accepted.work.outcome}"
    begun, ended = witness.begun(row.name), witness.ended(row.name)
    if begun > 1:
        yield f"began {begun} times"
    if row.outcome == "successful" and (begun, ended) != (1, 1):
        yield f"is successful, but began {begun} and ended {ended} times"
    if row.outcome == "canceled" and ended:
        yield "was canceled, and its playbook came to its end"
    if row.stored and (row.first, row.last) != (1, row.stored):
        yield f"has {row.stored} events, numbered {row.first} to {row.last}"
    if row.starts > 1:
        yield f"has the events of {row.starts} runs"
    if row.outcome == "successful" and row.starts != 1:
        yield "is successful without the event of its start"
    if not row.events_complete:
        yield "is final without all of its events"


def _overlaps(witness: Witness) -> Iterator[str]:
    """Jobs with an exclusive lock on one host never run at once."""
    spans = sorted(
        (begins[0], witness.ends[word][0], word)
        for word, begins in witness.begins.items()
        if word.startswith("locked-") and word in witness.ends
    )
    for (_, end, first), (begin, _, second) in pairwise(spans):
        if begin < end:
            yield f"{first} and {second} held the same host at once, for {end - begin:.2f} s"


def _left_behind(cluster: Cluster) -> Iterator[str]:
    for name, pid in cluster.supervisors().items():
        yield f"the supervisor of {name} (pid {pid}) still runs"
    for path in cluster.directory.glob("worker-*/runs/*"):
        yield f"{path.relative_to(cluster.directory)} is still there"
    for path in cluster.directory.rglob("*"):
        try:
            if path.is_file() and SECRET.encode() in path.read_bytes():
                yield f"{path.relative_to(cluster.directory)} holds a secret"
        except OSError:
            continue


def _faults_of_the_api(cluster: Cluster) -> Iterator[str]:
    """Whatever is broken, nobody is answered 500."""
    log = (cluster.directory / "api.log").read_text(errors="replace")
    for line in log.splitlines():
        if "request_failed" in line:
            yield f"the API answered 500: {line[:200]}"


def _connections(cluster: Cluster) -> Iterator[str]:
    with cluster.engine.connect() as connection:
        names = connection.scalars(text("SELECT application_name FROM pg_stat_activity")).all()
    for node in cluster.nodes:
        count = sum(name.startswith(f"dispatcher-node {node}") for name in names)
        if count > _NODE_CONNECTIONS:
            yield f"node {node} has {count} database connections"
