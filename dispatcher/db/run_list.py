"""REST v1's runs as a list, newest first, and what is known about one beside its summary."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping, text

from dispatcher.db.run_summaries import ORGANIZATION
from dispatcher.domain.outcome import Outcome

_ROW: Final = """
    SELECT job.id, job.uuid, job.status, job.outcome, job.explanation, job.launched_by,
        job.created, job.started, job.finished, job.name AS playbook, i.limit_pattern, i.tags,
        i.skip_tags, i.check_mode, job.forks, i.verbosity, s.ok, s.failed, s.skipped, s.task
    FROM run_summary s JOIN job ON job.id = s.job_id JOIN job_input i ON i.job_id = s.job_id
"""


def read_page(
    connection: Connection,
    *,
    before: UUID | None,
    outcomes: Collection[Outcome | None],
    count: int,
) -> Sequence[RowMapping]:
    """Runs in the order of their launch, newest first.

    Args:
        before: only runs that were launched before this one.
        outcomes: only runs that ended so, None: that have not ended; empty: all.
        count: most rows.
    """
    conditions = ["true"]
    given: dict[str, Any] = {"count": count}
    if before is not None:
        conditions.append("s.job_id < (SELECT id FROM job WHERE uuid = :before)")
        given["before"] = before
    if outcomes:
        conditions.append("(job.outcome = ANY(:outcomes) OR (:open AND job.outcome IS NULL))")
        given["outcomes"] = [str(each) for each in outcomes if each is not None]
        given["open"] = None in outcomes
    statement = f"{_ROW} WHERE {' AND '.join(conditions)} ORDER BY s.job_id DESC LIMIT :count"
    return connection.execute(text(statement), given).mappings().all()


def read_run(connection: Connection, job_id: int) -> RowMapping | None:
    """One of them."""
    found = connection.execute(text(f"{_ROW} WHERE s.job_id = :job"), {"job": job_id})
    return found.mappings().one_or_none()


def credentials_named(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """Credentials of v1's own tenant by name; those of others are none of its."""
    if not names:
        return {}
    rows = connection.execute(
        text(
            "SELECT credential.name, credential.id FROM credential"
            " JOIN organization ON organization.id = organization_id"
            " WHERE organization.name = :tenant AND credential.name = ANY(:names)"
        ),
        {"tenant": ORGANIZATION, "names": list(names)},
    )
    return {row.name: row.id for row in rows}
