"""Saving what has a name: fields checked by rules, references looked up, names unique."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from dispatcher.domain.launch_checks import LONGEST_NAME, line_problem, number_problem
from dispatcher.domain.prompts import RULES
from dispatcher.domain.text import has_unstorable
from dispatcher.errors import Conflict, InvalidRequest, NotFound

Rule = Callable[[Any], str | list[str] | None]
_LONGEST_SECONDS = 30 * 86_400
_UNIQUE = "23505"
_FOREIGN_KEY = "23503"


@dataclass(frozen=True)
class Subject:
    """One kind of object.

    Attributes:
        word: what people call it.
        rules: column → what is wrong with a value; columns without a rule cannot be written.
        required: columns that a new one must give.
        references: column → table that its id must be in.
        fixed: columns that never change once it is made.
        within: the column in which a name is unique; empty: unique among all.
        names: column → what an answer calls it, where that is not :func:`field_name`.
    """

    table: Table
    word: str
    rules: Mapping[str, Rule]
    required: tuple[str, ...] = ()
    references: Mapping[str, Table] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    within: str = "organization_id"
    names: Mapping[str, str] = field(default_factory=dict)

    def field(self, column: str) -> str:
        """What a column is called in an answer."""
        return self.names.get(column) or field_name(column)


def name_problem(name: object) -> str | None:
    """A name of one line that is not empty."""
    problem = line_problem(name, LONGEST_NAME)
    return problem or (None if str(name).strip() else "must not be empty")


def text_problem(value: object) -> str | None:
    """A text of any number of lines, as PostgreSQL takes it."""
    if not isinstance(value, str):
        return "a text is required"
    if len(value) > 100_000:
        return "at most 100000 characters"
    return "NUL cannot be stored" if has_unstorable(value) else None


def seconds_problem(value: object) -> str | None:
    """Seconds, 0 among them."""
    return number_problem(value, 0, _LONGEST_SECONDS)


def id_problem(value: object) -> str | None:
    """An id."""
    return "an id is required" if number_problem(value, 1, 2**63 - 1) else None


def optional_id_problem(value: object) -> str | None:
    """An id, or none."""
    return None if value is None else id_problem(value)


def field_name(column: str) -> str:
    """What most columns are called in an answer: a reference without ``_id``."""
    return {"limit_pattern": "limit"}.get(column, column.removesuffix("_id"))


def columns(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as an answer calls them become columns; unknown ones stay, and are refused later."""
    known = {subject.field(column): column for column in subject.rules}
    return {known.get(name, name): value for name, value in given.items()}


def check(
    connection: Connection, subject: Subject, values: Mapping[str, Any], *, new: bool
) -> dict[str, list[str]]:
    """What is wrong with the given fields, by name."""
    wrong: dict[str, list[str]] = {}
    for column, value in values.items():
        rule = subject.rules.get(column)
        if rule is None or (not new and column in subject.fixed):
            found: str | list[str] | None = (
                "cannot be changed" if rule else "there is no such field"
            )
        else:
            found = rule(value)
        if found:
            wrong[subject.field(column)] = [found] if isinstance(found, str) else found
    if new:
        for column in subject.required:
            if column not in values:
                wrong.setdefault(subject.field(column), ["is required"])
    for column, table in subject.references.items():
        wanted = values.get(column)
        if wanted is None or subject.field(column) in wrong:
            continue
        if connection.scalar(select(table.c.id).where(table.c.id == wanted)) is None:
            wrong[subject.field(column)] = [f"there is no {table.name.replace('_', ' ')} {wanted}"]
    return wrong


def check_groups(
    connection: Connection, values: Mapping[str, Any], *, field: str = "instance_groups"
) -> None:
    """Whether the instance groups that an object prefers exist.

    Args:
        field: what is named when one does not.

    Raises:
        InvalidRequest: names the first one that does not exist.
    """
    wanted = values.get("instance_groups")
    if not wanted or RULES["instance_groups"](wanted):
        return  # nothing, or what the field's own rule refuses
    known = set(
        connection.scalars(
            # kept until the reference to them is stored
            text(
                "SELECT id FROM instance_group WHERE id = ANY(CAST(:ids AS bigint[]))"
                " ORDER BY id FOR KEY SHARE"
            ),
            {"ids": list(wanted)},
        )
    )
    strangers = [each for each in wanted if each not in known]
    if strangers:
        raise InvalidRequest({field: f"there is no instance group {strangers[0]}"})


def create(connection: Connection, subject: Subject, values: Mapping[str, Any]) -> int:
    """Make one; its id.

    Raises:
        InvalidRequest: fields that are wrong, or a name that is taken.
    """
    wrong = check(connection, subject, values, new=True)
    if wrong:
        raise InvalidRequest(wrong)
    return int(_write(connection, subject, insert(subject.table).values(**values)))


def change(
    connection: Connection, subject: Subject, object_id: int, values: Mapping[str, Any]
) -> None:
    """Change one.

    Raises:
        NotFound: there is none with this id.
        InvalidRequest: fields that are wrong, or a name that is taken.
    """
    wrong = check(connection, subject, values, new=False)
    if wrong:
        raise InvalidRequest(wrong)
    statement = update(subject.table).where(subject.table.c.id == object_id)
    changed = dict(values)
    if "modified" in subject.table.c:
        changed["modified"] = func.dispatcher_now()
    if not changed:
        return
    if _write(connection, subject, statement.values(**changed)) is None:
        raise NotFound(f"there is no {subject.word} {object_id}")


def _write(connection: Connection, subject: Subject, statement: Any) -> Any:
    try:
        with connection.begin_nested():
            return connection.scalar(statement.returning(subject.table.c.id))
    except IntegrityError as error:
        found = _refusal(subject, error)
        if found is None:
            raise
        raise InvalidRequest(found) from None


def _refusal(subject: Subject, error: IntegrityError) -> dict[str, str] | None:
    """What the caller did wrong, by field, as the database found it."""
    code = getattr(error.orig, "pgcode", "")
    if code == _UNIQUE:
        where = f" in the {subject.field(subject.within)}" if subject.within else ""
        return {"name": f"there is a {subject.word} of this name{where} already"}
    if code == _FOREIGN_KEY:  # deleted after it was looked up
        constraint = getattr(getattr(error.orig, "diag", None), "constraint_name", None)
        for column, table in subject.references.items():
            if constraint == f"fk_{subject.table.name}_{column}":
                return {subject.field(column): f"the {table.name.replace('_', ' ')} is gone"}
    return None


def remove(connection: Connection, subject: Subject, object_id: int) -> None:
    """Delete one, unless jobs of it are unfinished or something needs it.

    Raises:
        NotFound: there is none with this id.
        Conflict: ``in_use``, with what uses it.
    """
    # a job that refers to it waits from here on, or is seen below
    connection.execute(
        select(subject.table.c.id).where(subject.table.c.id == object_id).with_for_update()
    )
    column = f"{subject.table.name}_id"
    if column in _JOB_COLUMNS:
        active = connection.scalars(
            text(
                f"SELECT id FROM job WHERE {column} = :id"
                " AND status IN ('pending', 'waiting', 'running') ORDER BY id LIMIT 20"
            ),
            {"id": object_id},
        ).all()
        if active:
            raise Conflict(
                f"the {subject.word} has unfinished jobs",
                code="in_use",
                extra={"active_jobs": list(active)},
            )
    try:
        with connection.begin_nested():
            gone = connection.execute(
                delete(subject.table).where(subject.table.c.id == object_id)
            ).rowcount
    except IntegrityError as error:
        user = getattr(getattr(error.orig, "diag", None), "table_name", None) or "something"
        raise Conflict(
            f"the {subject.word} is used by a {user.replace('_', ' ')}", code="in_use"
        ) from None
    if not gone:
        raise NotFound(f"there is no {subject.word} {object_id}")


_JOB_COLUMNS = (
    "project_id",
    "inventory_id",
    "inventory_source_id",
    "job_template_id",
    "workflow_job_template_id",
)
