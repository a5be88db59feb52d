"""Query parameters of a list become conditions and an order; what is not known is refused by name.

``field``, ``field__lookup``, with ``or__`` (at least one of those must hold) and ``not__`` before
it, in that order; ``a__b`` names a field of a related object.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from dispatcher.db.listing import Condition, FieldType, Listing, Order
from dispatcher.errors import InvalidRequest

_TEXT_LOOKUPS: Final = frozenset(
    {"exact", "iexact", "contains", "icontains", "startswith", "endswith"}
)
_ORDER_LOOKUPS: Final = frozenset({"gt", "gte", "lt", "lte"})
#: Which lookups make sense for which type.
LOOKUPS: Final[Mapping[FieldType, frozenset[str]]] = {
    FieldType.TEXT: _TEXT_LOOKUPS | _ORDER_LOOKUPS | {"in", "isnull"},
    FieldType.INTEGER: _ORDER_LOOKUPS | {"exact", "in", "isnull"},
    FieldType.NUMBER: _ORDER_LOOKUPS | {"exact", "in", "isnull"},
    FieldType.TIME: _ORDER_LOOKUPS | {"exact", "in", "isnull"},
    FieldType.BOOLEAN: frozenset({"exact", "isnull"}),
    FieldType.UUID: frozenset({"exact", "in", "isnull"}),
}
_ALL_LOOKUPS: Final = frozenset().union(*LOOKUPS.values())
_BIGINT: Final = 2**63
_MAX_CONDITIONS: Final = 50
_MAX_VALUES: Final = 1_000
_BOOLEANS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def read_conditions(listing: Listing, parameters: Iterable[tuple[str, str]]) -> list[Condition]:
    """The filters of a query.

    Raises:
        InvalidRequest: an unknown field or lookup, or a value that does not fit, by parameter.
    """
    conditions = []
    for name, value in parameters:
        conditions.append(_condition(listing, name, value))
        if len(conditions) > _MAX_CONDITIONS:
            raise InvalidRequest({name: f"more than {_MAX_CONDITIONS} filters"})
    return conditions


def _condition(listing: Listing, name: str, value: str) -> Condition:
    rest, alternative = _without(name, "or__")
    rest, negated = _without(rest, "not__")
    field, lookup = rest, "exact"
    if field not in listing.fields:
        field, _, lookup = rest.rpartition("__")
        if field not in listing.fields:
            raise InvalidRequest({name: "unknown filter"})
        if lookup not in _ALL_LOOKUPS:
            raise InvalidRequest({name: f"unknown lookup {lookup!r}"})
    kind = listing.fields[field].type
    if lookup not in LOOKUPS[kind]:
        raise InvalidRequest({name: f"{lookup!r} makes no sense for a {kind} field"})
    try:
        typed = _value(kind, lookup, value)
    except ValueError as error:
        raise InvalidRequest({name: str(error)}) from None
    return Condition(field, lookup, typed, negated, alternative)


def _without(name: str, prefix: str) -> tuple[str, bool]:
    return (name[len(prefix) :], True) if name.startswith(prefix) else (name, False)


def _value(kind: FieldType, lookup: str, value: str) -> Any:
    if lookup == "isnull":
        return _boolean(value)
    if lookup == "in":
        parts = [part.strip() for part in value.split(",")]
        if len(parts) > _MAX_VALUES:
            raise ValueError(f"more than {_MAX_VALUES} values")
        return [_typed(kind, part) for part in parts]
    if lookup == "exact" and kind is not FieldType.TEXT and value.lower() in ("null", "none"):
        return None
    return _typed(kind, value)


def _typed(kind: FieldType, value: str) -> Any:
    match kind:
        case FieldType.TEXT:
            return check_text(value)
        case FieldType.BOOLEAN:
            return _boolean(value)
        case FieldType.INTEGER:
            return read_integer(value)
        case FieldType.NUMBER:
            return _number(value)
        case FieldType.UUID:
            try:
                return UUID(value)
            except ValueError:
                raise ValueError("not a uuid") from None
        case FieldType.TIME:
            return _time(value)


def _boolean(value: str) -> bool:
    try:
        return _BOOLEANS[value.lower()]
    except KeyError:
        raise ValueError("neither true nor false") from None


def read_integer(value: str) -> int:
    """A whole number that PostgreSQL's bigint holds.

    Raises:
        ValueError: it is none.
    """
    # int() would take "1_000", " 7" and digits of other scripts
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise ValueError("not a whole number")
    number = int(value)
    if not -_BIGINT <= number < _BIGINT:
        raise ValueError("out of range")
    return number


def _number(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise ValueError("not a number") from None
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    return number


def _time(value: str) -> datetime:
    try:
        # "+" of an offset arrives as a space when the caller did not quote it
        moment = datetime.fromisoformat(value.strip().replace(" ", "+") if "T" in value else value)
    except ValueError:
        raise ValueError("not a time (2026-01-31T12:00:00Z)") from None
    try:
        # PostgreSQL refuses offsets of 16 hours and more, and their fractions of a second
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("out of range") from None


def check_text(value: str) -> str:
    """A text that PostgreSQL takes.

    Raises:
        ValueError: it holds NUL or half a surrogate pair.
    """
    if "\0" in value:
        raise ValueError("contains a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("contains half a surrogate pair") from None
    return value


def read_order(listing: Listing, value: str) -> list[Order]:
    """``-finished,id``: fields, a minus for descending.

    Raises:
        InvalidRequest: a field that the list cannot be ordered by.
    """
    order = []
    for part in value.split(","):
        name = part.strip()
        field = name.removeprefix("-")
        if field not in listing.fields:
            raise InvalidRequest({"order_by": f"cannot order by {field!r}"})
        order.append(Order(field, name.startswith("-")))
    return order
