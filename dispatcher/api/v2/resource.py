"""The one machinery of lists: query → page of rows → ``{count, next, previous, results}``.

A resource's module gives its rows (:class:`~dispatcher.db.listing.Listing`) and a function that
renders one; everything a caller can say about a list is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar
from urllib.parse import urlencode

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, RowMapping, Select

from dispatcher.api.v2.filters import LOOKUPS, check_text, read_conditions, read_integer, read_order
from dispatcher.db import listing as db
from dispatcher.db.listing import Condition, Listing, Order
from dispatcher.errors import InvalidRequest, NotFound

ROOT: Final = "/api/v2/"
MAX_PAGE_SIZE: Final = 200
_DEFAULT_PAGE_SIZE: Final = 25
_MAX_SEARCH_WORDS: Final = 10
#: Parameters that are no filters. ``format`` and ``no_truncate`` are sent by clients of the
#: dialect; answers here are always JSON and never truncated.
_OWN: Final = frozenset(
    {"page", "page_size", "order_by", "search", "cursor", "format", "no_truncate"}
)

T = TypeVar("T")
Row = RowMapping
Render = Callable[[Sequence[Row]], list[dict[str, Any]]]


class Page(BaseModel, Generic[T]):
    """One page of a list."""

    # a generic model does not pass its text on to its instances
    model_config = ConfigDict(json_schema_extra={"description": "One page of a list."})

    count: int = Field(
        description="How many objects match; past 10,000 an estimate, so that no list reads a whole"
        " table only to count it."
    )
    next: str | None = Field(description="Path of the next page; null on the last one.")
    previous: str | None = Field(
        description="Path of the page before; null on the first one and with `cursor`."
    )
    results: list[T] = Field(description="The objects of this page.")


def url_of(resource: str, object_id: int | str) -> str:
    """Path of one object."""
    return f"{ROOT}{resource}/{object_id}/"


@dataclass(frozen=True)
class ListQuery:
    """What a caller said about a list."""

    path: str
    parameters: tuple[tuple[str, str], ...]
    page: int
    page_size: int
    order_by: str | None
    cursor: str | None

    def link(self, **changed: str | int) -> str:
        """Path of the same list with some parameters changed."""
        kept = [(name, value) for name, value in self.parameters if name not in changed]
        return f"{self.path}?{urlencode([*kept, *((k, str(v)) for k, v in changed.items())])}"


async def list_query(
    request: Request,
    page: Annotated[
        int, Query(ge=1, le=1_000_000, description="Number of the page, from 1.", examples=[1])
    ] = 1,
    page_size: Annotated[
        int,
        Query(
            ge=1,
            le=1_000_000,
            description=f"Objects on a page; more than {MAX_PAGE_SIZE} count as {MAX_PAGE_SIZE}.",
        ),
    ] = _DEFAULT_PAGE_SIZE,
    order_by: Annotated[
        str | None,
        Query(
            max_length=200,
            description="Fields to order by, separated by commas, each with `-` before it for"
            " descending. Every field that can be filtered on can be ordered by.",
        ),
    ] = None,
    search: Annotated[
        str | None,
        Query(
            max_length=200,
            description="Text that one of the object's text fields must contain, whatever the case.",
        ),
    ] = None,
    cursor: Annotated[
        str | None,
        Query(
            max_length=20,
            description="Paging by cursor, which stays exact while objects are added: empty for"
            " the first page, then follow `next`. Ordered by `id` or `-id` only.",
        ),
    ] = None,
) -> ListQuery:
    """Read the parameters that every list has."""
    return ListQuery(
        path=request.url.path,
        parameters=tuple(request.query_params.multi_items()),
        page=page,
        page_size=min(page_size, MAX_PAGE_SIZE),
        order_by=order_by,
        cursor=cursor,
    )


#: A parameter of list endpoints.
ListQueryParameter = Annotated[ListQuery, Depends(list_query)]


def read_list(
    connection: Connection,
    query: ListQuery,
    listing: Listing,
    render: Render,
    *,
    default_order: str = "id",
    total: Callable[[], int] | None = None,
    narrow: Callable[[Sequence[Condition]], Listing] | None = None,
) -> dict[str, Any]:
    """One page, as an answer.

    Args:
        render: a page's rows as objects of the API.
        default_order: used when the caller names none.
        total: a cheaper count of the whole list, used when nothing is filtered.
        narrow: the listing again, made smaller by what the conditions imply.

    Raises:
        InvalidRequest: an unknown filter, order or cursor.
        NotFound: a page past the last one.
    """
    filters = [(name, value) for name, value in query.parameters if name not in _OWN]
    conditions = read_conditions(listing, filters)
    words = _search_words(query)
    if narrow is not None:
        listing = narrow(conditions)
    rows = db.narrowed(listing, conditions, words)

    def count() -> int:
        if total is not None and not conditions and not words:
            return total()
        return db.count(connection, rows)

    order = read_order(listing, query.order_by or default_order)
    if query.cursor is not None:
        return _by_cursor(connection, query, listing, rows, order, render, count())
    found = db.read_page(
        connection,
        listing,
        rows,
        order,
        limit=query.page_size + 1,
        offset=(query.page - 1) * query.page_size,
    )
    if not found and query.page > 1:
        raise NotFound("Invalid page.")
    seen = (query.page - 1) * query.page_size + len(found)
    more = len(found) > query.page_size
    return {
        # the last page shows how many there are; an estimate never contradicts what was just read
        "count": max(count(), seen) if more else seen,
        "next": query.link(page=query.page + 1) if more else None,
        "previous": query.link(page=query.page - 1) if query.page > 1 else None,
        "results": render(found[: query.page_size]),
    }


def _by_cursor(
    connection: Connection,
    query: ListQuery,
    listing: Listing,
    rows: Select[Any],
    order: Sequence[Order],
    render: Render,
    count: int,
) -> dict[str, Any]:
    same = listing.same_order or {}
    if len(order) != 1 or same.get(order[0].field, order[0].field) != listing.key:
        raise InvalidRequest({"order_by": f"with a cursor only {listing.key!r}, or '-' before it"})
    try:
        after = read_integer(query.cursor) if query.cursor else None
    except ValueError as error:
        raise InvalidRequest({"cursor": str(error)}) from None
    found: list[RowMapping] = db.read_after(
        connection,
        listing,
        rows,
        cursor=after,
        descending=order[0].descending,
        limit=query.page_size + 1,
    )
    shown = found[: query.page_size]
    more = len(found) > len(shown)
    return {
        "count": count,
        "next": query.link(cursor=shown[-1][listing.key]) if more else None,
        "previous": None,
        "results": render(shown),
    }


def _search_words(query: ListQuery) -> list[str]:
    words = [value for name, value in query.parameters if name == "search" and value]
    if len(words) > _MAX_SEARCH_WORDS:
        raise InvalidRequest({"search": f"more than {_MAX_SEARCH_WORDS} times"})
    try:
        return [check_text(word) for word in words]
    except ValueError as error:
        raise InvalidRequest({"search": str(error)}) from None


_SCHEMA_TYPES: Final[Mapping[db.FieldType, dict[str, str]]] = {
    db.FieldType.TEXT: {"type": "string"},
    db.FieldType.INTEGER: {"type": "integer"},
    db.FieldType.NUMBER: {"type": "number"},
    db.FieldType.BOOLEAN: {"type": "boolean"},
    db.FieldType.TIME: {"type": "string", "format": "date-time"},
    db.FieldType.UUID: {"type": "string", "format": "uuid"},
}


def filters_of(listing: Listing) -> dict[str, Any]:
    """The filters of a list, for its description in OpenAPI (``openapi_extra``)."""
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": False,
                "description": f"Only objects with this `{name}`. Also as `{name}__<lookup>` with "
                + ", ".join(sorted(LOOKUPS[field.type] - {"exact"}))
                + "; `not__` before it negates, `or__` makes it an alternative.",
                "schema": _SCHEMA_TYPES[field.type],
            }
            for name, field in listing.fields.items()
        ]
    }
