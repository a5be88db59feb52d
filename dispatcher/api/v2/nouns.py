"""What one kind of object is: its words, its forms, its rows, and the actions that store it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from dispatcher.actions import saving
from dispatcher.api.auth import Caller
from dispatcher.api.body import JsonRoute
from dispatcher.api.v2.resource import ROOT, Row
from dispatcher.broker.messages import Owed
from dispatcher.db import listing as db
from dispatcher.db.listing import Listing
from dispatcher.errors import NotFound

_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


class Body(BaseModel):
    """What a caller writes: fields that are not sent stay as they are."""

    model_config = ConfigDict(extra="forbid", strict=True)

    def given(self) -> dict[str, Any]:
        """The fields that were sent."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class Association(Body):
    """What is put into a list of members, or taken out."""

    id: int = Field(description="Number of the member.", ge=1, lt=2**63, examples=[1])
    disassociate: bool = Field(False, description="True: take it out.")


def _not_made(*_: object) -> Any:
    """Of a noun without this route."""
    raise AssertionError


@dataclass(frozen=True)
class Noun:
    """One kind of object.

    Attributes:
        word: what people call it, in the singular.
        resource: first part of its paths, also what people call many.
        key: what paths call its number.
        tag: where the description shows it.
        model: an object in answers.
        changes: the body that changes one.
        subject: its rules; names of fields become columns by it.
        listing: the rows.
        render: rows as objects of the API.
        change: stores a change; what is owed.
        new: the body that makes one; also of PUT.
        create: stores one: its number, and what is owed.
        delete: what is owed.

    The actions are given the connection and the name of whoever asks.
    """

    word: str
    resource: str
    key: str
    tag: str
    model: type[BaseModel]
    changes: type[Body]
    subject: saving.Subject
    listing: Callable[[], Listing]
    render: Callable[[Connection, Sequence[Row]], list[dict[str, Any]]]
    change: Callable[[Connection, int, dict[str, Any], str], Owed] = _not_made
    new: type[Body] = Body
    create: Callable[[Connection, dict[str, Any], str], tuple[int, Owed]] = _not_made
    delete: Callable[[Connection, int], Owed] = _not_made

    @property
    def many(self) -> str:
        """What people call many of them."""
        return self.resource.replace("_", " ")

    @property
    def number(self) -> Any:
        """The type of its number in a path."""
        return Annotated[
            int, Path(alias=self.key, description=f"Number of the {self.word}.", ge=1, lt=2**63)
        ]

    def router(self) -> APIRouter:
        """An empty router at its paths."""
        return APIRouter(prefix=f"{ROOT}{self.resource}", tags=[self.tag], route_class=JsonRoute)


def read_object(connection: Connection, noun: Noun, object_id: int) -> dict[str, Any]:
    """One object as answers show it.

    Raises:
        NotFound: there is none with this number.
    """
    return noun.render(connection, [read_row(connection, noun, object_id)])[0]


def read_row(connection: Connection, noun: Noun, object_id: int) -> Row:
    """The row of one object.

    Raises:
        NotFound: there is none with this number.
    """
    row = db.read_one(connection, noun.listing(), object_id)
    if row is None:
        raise NotFound
    return row


def typed(endpoint: _Endpoint, **annotations: Any) -> _Endpoint:
    """An endpoint some of whose parameters have types that are known only now."""
    endpoint.__annotations__.update(annotations)
    return endpoint


def written(
    caller: Caller, noun: Noun, write: Callable[[Connection, str], tuple[int, Owed]]
) -> dict[str, Any]:
    """Store something, publish what it owes; the object as it is then."""
    with caller.named_transaction() as (connection, principal):
        object_id, owed = write(connection, principal)
        found = read_object(connection, noun, object_id)
    caller.services.publisher.publish(owed)
    return found
