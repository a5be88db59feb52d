"""Variables of inventories, hosts and groups: a text in answers, a text or an object when written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from pydantic import Field
from sqlalchemy import Connection

from dispatcher import logs
from dispatcher.actions.save_inventory import merge_variables
from dispatcher.api.auth import Caller, CallerParameter
from dispatcher.api.v2 import objects
from dispatcher.broker.messages import Owed
from dispatcher.domain.variables_text import read_variables
from dispatcher.errors import InvalidRequest

log = logs.get(__name__)


class WithVariables(objects.Body):
    """A body with variables."""

    variables: str | dict[str, Any] = Field(
        "",
        description="Variables: a text in JSON or YAML, or an object; all of them, whatever there"
        " was before.",
        examples=['{"ansible_port": 2222}'],
    )

    def given(self) -> dict[str, Any]:
        """The fields that were sent, the variables read."""
        found = super().given()
        if isinstance(found.get("variables"), str):
            found["variables"] = _read(found["variables"])
        return found


def _read(given: str) -> dict[str, Any]:
    try:
        return read_variables(given)
    except ValueError as error:
        raise InvalidRequest({"variables": str(error)}) from None


def _written(
    caller: Caller, noun: objects.Noun, object_id: int, write: Callable[[Connection, str], Owed]
) -> dict[str, Any]:
    with caller.named_transaction() as (connection, principal):
        owed = write(connection, principal)
        found: dict[str, Any] = objects.read_row(connection, noun, object_id)["variables"]
    log.info("object_changed", kind=noun.word, id=object_id, fields=["variables"])
    caller.services.publisher.publish(owed)
    return found


def add_variable_data(router: APIRouter, noun: objects.Noun) -> None:
    """``N/variable_data/``: the variables as an object."""

    def read(caller: CallerParameter, object_id: int) -> dict[str, Any]:
        with caller.reading() as connection:
            found: dict[str, Any] = objects.read_row(connection, noun, object_id)["variables"]
            return found

    def patch(caller: CallerParameter, object_id: int, body: dict[str, Any]) -> dict[str, Any]:
        def merge(connection: Connection, _: str) -> Owed:
            return merge_variables(connection, noun.subject, object_id, body)

        return _written(caller, noun, object_id, merge)

    def replace(caller: CallerParameter, object_id: int, body: dict[str, Any]) -> dict[str, Any]:
        def change(connection: Connection, by: str) -> Owed:
            return noun.change(connection, object_id, {"variables": body}, by)

        return _written(caller, noun, object_id, change)

    path = f"/{{{noun.key}}}/variable_data/"
    router.get(
        path,
        summary=f"Variables of one {noun.word}",
        description="As an object.",
        response_model=dict[str, Any],
    )(objects.typed(read, object_id=noun.number))
    router.patch(
        path,
        summary=f"Change some variables of one {noun.word}",
        description="Those that are sent; all others stay.",
        response_model=dict[str, Any],
    )(objects.typed(patch, object_id=noun.number))
    router.put(
        path,
        summary=f"Set the variables of one {noun.word}",
        description="To exactly those that are sent.",
        response_model=dict[str, Any],
    )(objects.typed(replace, object_id=noun.number))
