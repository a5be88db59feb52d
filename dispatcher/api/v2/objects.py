"""The one machinery of objects that callers write: a noun's description becomes its routes.

A noun's module says what its objects look like and which actions store them. Here: list, make,
read, change and delete; lists inside other objects; members that are put in and taken out. What an
action owes the broker is published when its transaction has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from dispatcher import logs
from dispatcher.actions import saving
from dispatcher.api.auth import Caller, CallerParameter
from dispatcher.api.v2.nouns import Association, Body, Noun, read_object, read_row, typed, written
from dispatcher.api.v2.resource import (
    ListQueryParameter,
    Page,
    Row,
    filters_of,
    read_list,
    url_of,
)
from dispatcher.broker.messages import Owed
from dispatcher.db.listing import Listing
from dispatcher.errors import InvalidRequest

__all__ = [
    "Association",
    "Body",
    "Noun",
    "add_changes",
    "add_create_inside",
    "add_delete",
    "add_list",
    "add_list_inside",
    "add_members",
    "add_read",
    "add_routes",
    "read_object",
    "read_row",
    "typed",
    "without_same",
    "written",
]

log = logs.get(__name__)

_IN_USE: Final[dict[int | str, dict[str, Any]]] = {
    409: {"description": "`in_use`: something needs it, which the answer names."}
}


def add_routes(router: APIRouter, noun: Noun) -> None:
    """List, make, read, change, replace and delete."""
    add_list(router, noun)
    _add_create(router, noun)
    add_read(router, noun)
    add_changes(router, noun)
    add_delete(router, noun)


def add_list(router: APIRouter, noun: Noun, *, order: str = "id") -> None:
    """``GET /``."""

    def list_objects(caller: CallerParameter, query: ListQueryParameter) -> dict[str, Any]:
        with caller.reading() as connection:
            return read_list(
                connection,
                query,
                noun.listing(),
                lambda rows: noun.render(connection, rows),
                default_order=order,
            )

    router.get(
        "/",
        summary=f"List the {noun.many}",
        description=f"All {noun.many}, in the order in which they were made unless `order_by`"
        " says otherwise.",
        response_model=Page[noun.model],  # type: ignore[name-defined]
        openapi_extra=filters_of(noun.listing()),
    )(list_objects)


def _add_create(router: APIRouter, noun: Noun) -> None:
    def create(caller: CallerParameter, body: Body, response: Response) -> dict[str, Any]:
        return _created(caller, noun, body.given(), response)

    router.post(
        "/",
        summary=f"Make one of the {noun.many}",
        description="Fields that are not sent have their defaults. `Location` names the new object.",
        status_code=201,
        response_model=noun.model,
    )(typed(create, body=noun.new))


def _created(
    caller: Caller, noun: Noun, given: dict[str, Any], response: Response
) -> dict[str, Any]:
    values = saving.columns(noun.subject, given)
    found = written(caller, noun, lambda connection, by: noun.create(connection, values, by))
    log.info("object_made", kind=noun.word, id=found["id"])
    response.headers["Location"] = url_of(noun.resource, found["id"])
    return found


def add_read(router: APIRouter, noun: Noun) -> None:
    """``GET /N/``."""

    def read(caller: CallerParameter, object_id: int) -> dict[str, Any]:
        with caller.reading() as connection:
            return read_object(connection, noun, object_id)

    router.get(
        f"/{{{noun.key}}}/",
        summary=f"One {noun.word}",
        description="The object with its related paths.",
        response_model=noun.model,
    )(typed(read, object_id=noun.number))


def without_same(noun: Noun, row: Row, values: dict[str, Any]) -> dict[str, Any]:
    """The values but those that never change and are sent as they are: PUT sends them each time."""
    same = {c for c in noun.subject.fixed if c in values and values[c] == row[c]}
    return {c: v for c, v in values.items() if c not in same}


def add_changes(router: APIRouter, noun: Noun, *, put: bool = True) -> None:
    """``PATCH /N/`` and ``PUT /N/``."""

    def patch(caller: CallerParameter, object_id: int, body: Body) -> dict[str, Any]:
        values = saving.columns(noun.subject, body.given())

        def change(connection: Connection, by: str) -> tuple[int, Owed]:
            row = read_row(connection, noun, object_id)
            changed = without_same(noun, row, values)
            return object_id, noun.change(connection, object_id, changed, by)

        found = written(caller, noun, change)
        log.info("object_changed", kind=noun.word, id=object_id, fields=sorted(values))
        return found

    def replace(caller: CallerParameter, object_id: int, body: Body) -> dict[str, Any]:
        return patch(caller, object_id, body)

    router.patch(
        f"/{{{noun.key}}}/",
        summary=f"Change one {noun.word}",
        description="Fields that are not sent stay as they are.",
        response_model=noun.model,
    )(typed(patch, object_id=noun.number, body=noun.changes))
    if put:
        router.put(
            f"/{{{noun.key}}}/",
            summary=f"Change one {noun.word}, required fields given",
            description="As PATCH, for clients that send the required fields each time.",
            response_model=noun.model,
        )(typed(replace, object_id=noun.number, body=noun.new))


def add_delete(router: APIRouter, noun: Noun) -> None:
    """``DELETE /N/``."""

    def delete(caller: CallerParameter, object_id: int) -> None:
        with caller.transaction() as connection:
            owed = noun.delete(connection, object_id)
        log.info("object_deleted", kind=noun.word, id=object_id)
        caller.services.publisher.publish(owed)

    router.delete(
        f"/{{{noun.key}}}/",
        summary=f"Delete one {noun.word}",
        description="Refused while something needs it.",
        status_code=204,
        response_class=Response,
        responses=_IN_USE,
    )(typed(delete, object_id=noun.number))


def add_list_inside(
    router: APIRouter,
    parent: Noun,
    path: str,
    member: Noun,
    listing: Callable[[int], Listing],
    *,
    what: str,
) -> None:
    """``GET /N/<path>/``: the objects of another kind that belong to one.

    Args:
        listing: the rows that belong to the parent with this number.
        what: the list in words, for its summary and description.
    """

    def list_members(
        caller: CallerParameter, query: ListQueryParameter, object_id: int
    ) -> dict[str, Any]:
        with caller.reading() as connection:
            read_row(connection, parent, object_id)
            return read_list(
                connection,
                query,
                listing(object_id),
                lambda rows: member.render(connection, rows),
            )

    router.get(
        f"/{{{parent.key}}}/{path}/",
        summary=f"List {what}",
        description=f"Only {what}.",
        response_model=Page[member.model],  # type: ignore[name-defined]
        openapi_extra=filters_of(member.listing()),
    )(typed(list_members, object_id=parent.number))


def add_create_inside(
    router: APIRouter, parent: Noun, path: str, member: Noun, field: str, body_type: type[Body]
) -> None:
    """``POST /N/<path>/``: make an object of another kind that belongs to one.

    Args:
        field: the member's field that names its parent.
        body_type: the body that makes one, in which ``field`` is not required.
    """

    def create_member(
        caller: CallerParameter, object_id: int, body: Body, response: Response
    ) -> dict[str, Any]:
        with caller.reading() as connection:
            read_row(connection, parent, object_id)
        given = body.given()
        if given.setdefault(field, object_id) != object_id:
            raise InvalidRequest({field: f"the path names {object_id}"})
        return _created(caller, member, given, response)

    router.post(
        f"/{{{parent.key}}}/{path}/",
        summary=f"Make one of the {member.many} of one {parent.word}",
        description=f"As `POST {member.resource}/`, with `{field}` taken from the path.",
        status_code=201,
        response_model=member.model,
    )(typed(create_member, object_id=parent.number, body=body_type))


def add_members(
    router: APIRouter,
    parent: Noun,
    path: str,
    put: Callable[[Connection, int, int, bool], Owed],
    *,
    what: str,
) -> None:
    """``POST /N/<path>/`` with ``{id}`` or ``{id, disassociate: true}``.

    Args:
        put: given the parent's number, the member's, and whether it is to be in; what is owed.
        what: the members in words.
    """

    def associate(caller: CallerParameter, object_id: int, body: Association) -> None:
        with caller.transaction() as connection:
            read_row(connection, parent, object_id)
            owed = put(connection, object_id, body.id, not body.disassociate)
        log.info(
            "member_taken_out" if body.disassociate else "member_put_in",
            kind=parent.word, id=object_id, path=path, member=body.id,
        )  # fmt: skip
        caller.services.publisher.publish(owed)

    router.post(
        f"/{{{parent.key}}}/{path}/",
        summary=f"Put in or take out {what}",
        description="`{id}` puts in, `{id, disassociate: true}` takes out. What is so already is"
        " no error.",
        status_code=204,
        response_class=Response,
    )(typed(associate, object_id=parent.number))
