"""REST v1's runs in numbers, for its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from dispatcher.domain.outcome import FACTS, Outcome

#: Counts of a host's summary → the old words for them.
_WORDS: Final = {"ok": "ok", "failures": "failed", "skipped": "skipped", "dark": "unreachable"}


def read_runs(connection: Connection) -> dict[str, int]:
    """Number of runs by v1's word; those that have not ended are ``running``."""
    rows = connection.execute(
        text(
            "SELECT job.outcome, count(*) FROM run_summary JOIN job ON job.id = run_summary.job_id"
            " GROUP BY job.outcome"
        )
    )
    counts: Counter[str] = Counter()
    for outcome, number in rows:
        counts["running" if outcome is None else FACTS[Outcome(outcome)].v1] += number
    return dict(counts)


def read_hosts(connection: Connection) -> Sequence[Any]:
    """Host, word and number of results, of runs that have ended."""
    sums = " UNION ALL ".join(
        f"SELECT host_name, '{word}', sum({column}) FROM h GROUP BY host_name"
        for column, word in _WORDS.items()
    )
    return connection.execute(
        text(
            "WITH h AS (SELECT s.* FROM job_host_summary s JOIN run_summary USING (job_id))"
            f" {sums} ORDER BY 1, 2"
        )
    ).all()
