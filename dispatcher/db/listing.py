"""Lists: conditions on named fields become SQL; pages and counts never read a whole large table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    RowMapping,
    Select,
    and_,
    func,
    literal,
    not_,
    or_,
    select,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement

#: Rows up to which a count is exact; beyond it the planner's estimate answers.
EXACT_COUNT: Final = 10_000


class FieldType(StrEnum):
    """How a field's values are written in a query, and which lookups make sense."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"
    UUID = "uuid"


@dataclass(frozen=True)
class Field:
    """A field that lists can be filtered and ordered by."""

    expression: ColumnElement[Any]
    type: FieldType


@dataclass(frozen=True)
class Listing:
    """What a list is made of.

    Attributes:
        source: the rows with their columns, without order.
        fields: what can be filtered and ordered by, by its name in the API.
        search: names of the text fields that ``search`` looks into.
        key: name of the field that is unique in the list; it ends every order.
        same_order: field → field that gives the same order from an index.
    """

    source: Select[Any]
    fields: Mapping[str, Field]
    search: tuple[str, ...]
    key: str = "id"
    same_order: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Condition:
    """One filter: all plain ones must hold, and at least one of the ``alternative`` ones."""

    field: str
    lookup: str
    value: Any
    negated: bool = False
    alternative: bool = False


@dataclass(frozen=True)
class Order:
    """One part of an order."""

    field: str
    descending: bool = False


_COMPARISONS: Final[Mapping[str, str]] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _predicate(listing: Listing, condition: Condition) -> ColumnElement[bool]:
    column, value = listing.fields[condition.field].expression, condition.value
    found: ColumnElement[bool]
    match condition.lookup:
        case "exact":
            found = column.is_(None) if value is None else column == value
        case "iexact":
            found = func.lower(column) == func.lower(value)
        case "contains":
            found = column.contains(value, autoescape=True)
        case "icontains":
            found = column.icontains(value, autoescape=True)
        case "startswith":
            found = column.startswith(value, autoescape=True)
        case "endswith":
            found = column.endswith(value, autoescape=True)
        case "in":
            found = column.in_(value)
        case "isnull":
            found = column.is_(None) if value else column.is_not(None)
        case comparison:
            found = column.bool_op(_COMPARISONS[comparison])(value)
    # A negated condition also keeps the rows where the field is null.
    return not_(func.coalesce(found, False)) if condition.negated else found


def narrowed(
    listing: Listing, conditions: Sequence[Condition], search: Sequence[str]
) -> Select[Any]:
    """The rows that satisfy the conditions and hold every searched word in some text field."""
    plain = [_predicate(listing, c) for c in conditions if not c.alternative]
    alternatives = [_predicate(listing, c) for c in conditions if c.alternative]
    words = [
        or_(
            *(
                listing.fields[name].expression.icontains(word, autoescape=True)
                for name in listing.search
            )
        )
        for word in search
    ]
    statement = listing.source
    if plain or words:
        statement = statement.where(and_(*plain, *words))
    if alternatives:
        statement = statement.where(or_(*alternatives))
    return statement


def read_one(connection: Connection, listing: Listing, key: int) -> RowMapping | None:
    """The row with this key."""
    statement = listing.source.where(listing.fields[listing.key].expression == key)
    return connection.execute(statement).mappings().one_or_none()


def read_page(
    connection: Connection,
    listing: Listing,
    rows: Select[Any],
    order: Sequence[Order],
    *,
    limit: int,
    offset: int,
) -> list[RowMapping]:
    """One page of ``rows`` (made by :func:`narrowed`), in a total order."""
    same = listing.same_order or {}
    parts = [Order(same.get(part.field, part.field), part.descending) for part in order]
    if all(part.field != listing.key for part in parts):
        parts.append(Order(listing.key, bool(parts) and parts[-1].descending))
    statement = rows.order_by(*(_ordered(listing, part) for part in parts))
    return list(connection.execute(statement.limit(limit).offset(offset)).mappings())


def read_after(
    connection: Connection,
    listing: Listing,
    rows: Select[Any],
    *,
    cursor: int | None,
    descending: bool,
    limit: int,
) -> list[RowMapping]:
    """The rows that follow the key ``cursor``; from the first one when it is None."""
    key = listing.fields[listing.key].expression
    if cursor is not None:
        rows = rows.where(key < cursor if descending else key > cursor)
    statement = rows.order_by(_ordered(listing, Order(listing.key, descending))).limit(limit)
    return list(connection.execute(statement).mappings())


def _ordered(listing: Listing, part: Order) -> ColumnElement[Any]:
    column = listing.fields[part.field].expression
    if not part.descending:
        return column.asc()  # nulls are last by themselves
    # the key is never null, and "nulls last" would keep its index from being read backwards
    return column.desc() if part.field == listing.key else column.desc().nulls_last()


def count(connection: Connection, rows: Select[Any]) -> int:
    """How many rows there are: exact up to :data:`EXACT_COUNT`, beyond it an estimate."""
    bare = rows.order_by(None).with_only_columns(
        literal(1).label("one"), maintain_column_froms=True
    )
    bounded = bare.limit(EXACT_COUNT + 1).subquery()
    found = connection.execute(select(func.count()).select_from(bounded)).scalar_one()
    if found <= EXACT_COUNT:
        return found
    plan = connection.execute(_Explain(bare)).scalar_one()
    return max(found, int(plan[0]["Plan"]["Plan Rows"]))


class _Explain(Executable, ClauseElement):
    """``EXPLAIN (FORMAT JSON)`` of a statement; it is planned, not run."""

    inherit_cache = False

    def __init__(self, statement: Select[Any]) -> None:
        self.statement = statement


@compiles(_Explain)
def _compile_explain(element: _Explain, compiler: SQLCompiler, **kw: Any) -> str:
    return "EXPLAIN (FORMAT JSON) " + compiler.process(element.statement, **kw)
