"""``pause/``: the switch that stops every start. Organizations and instance groups have their own."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from dispatcher import logs
from dispatcher.actions import pauses
from dispatcher.api.auth import CallerParameter
from dispatcher.api.body import JsonRoute
from dispatcher.api.v2.objects import Body

log = logs.get(__name__)

router = APIRouter(prefix="/api/v2/pause", tags=["cluster"], route_class=JsonRoute)


class Pause(BaseModel):
    """Whether no job is started anywhere."""

    paused: bool = Field(description="Whether no job is started; what runs goes on.")
    pause_reason: str = Field(description="Why, in words; shown by every job that waits for it.")


class SetPause(Body):
    """Whether no job is to be started anywhere."""

    paused: bool = Field(description="Whether no job is to be started.", examples=[True])
    pause_reason: str = Field("", description="Why, in words.")


@router.get("/", summary="Is everything paused?", response_model=Pause)
def get_pause(caller: CallerParameter) -> dict[str, Any]:
    """The switch of the whole cluster."""
    with caller.reading() as connection:
        return pauses.read_whole(connection)


@router.put("/", summary="Pause everything, or go on", response_model=Pause)
def put_pause(caller: CallerParameter, body: SetPause) -> dict[str, Any]:
    """Takes effect with the next start; what runs or waits on a node goes on."""
    with caller.named_transaction() as (connection, principal):
        owed = pauses.set_whole(connection, body.given(), principal)
        found = pauses.read_whole(connection)
    log.info("paused" if body.paused else "pause_ended", reason=body.pause_reason)
    caller.services.publisher.publish(owed)
    return found
