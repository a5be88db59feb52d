"""``content/``: bundles, named by the SHA-256 of their bytes. Only what is missing is uploaded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final

from anyio import CapacityLimiter, from_thread, to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from dispatcher.actions import store_content
from dispatcher.api.auth import CallerParameter
from dispatcher.api.body import JsonRoute
from dispatcher.api.v2.resource import url_of
from dispatcher.db import content_queries
from dispatcher.db.engine import unavailable_when_away
from dispatcher.errors import NotFound

router = APIRouter(prefix="/api/v2/content", tags=["content"], route_class=JsonRoute)

#: Uploads at once; more wait, so that slow senders never take every thread.
_UPLOADS: Final = 8
_MAX_DIGESTS: Final = 1_000
_PATTERN: Final = "^[0-9a-f]{64}$"

Digest = Annotated[
    str, Path(pattern=_PATTERN, description="SHA-256 of the bundle's bytes, in lower-case hex.")
]


class Digests(BaseModel):
    """Bundles that a run will need."""

    model_config = ConfigDict(extra="forbid", strict=True)

    digests: list[Annotated[str, Field(pattern=_PATTERN)]] = Field(
        max_length=_MAX_DIGESTS, description="SHA-256 of each, in lower-case hex."
    )


class Missing(BaseModel):
    """What has to be uploaded first."""

    missing: list[str] = Field(description="Digests of bundles that are not stored here.")


class Bundle(BaseModel):
    """A stored bundle."""

    type: str = Field(description="Always `content`.")
    url: str = Field(description="Path of this object.")
    digest: str = Field(description="SHA-256 of its bytes.")
    size: int = Field(description="Its bytes.")
    unpacked_size: int = Field(description="Bytes of the files in it.")
    created: datetime = Field(description="When it was stored.")
    last_used: datetime = Field(
        description="When it was last asked for; unused ones are removed after a day."
    )


@router.post("/", summary="Which bundles are missing?", response_model=Missing)
def post_digests(caller: CallerParameter, body: Digests) -> dict[str, Any]:
    """Asking also renews those that are there, so that they stay until the run is submitted."""
    with caller.transaction() as connection:
        return {"missing": store_content.missing(connection, body.digests)}


@router.get("/{digest}/", summary="A bundle's size and times", response_model=Bundle)
def get_bundle(caller: CallerParameter, digest: Digest) -> dict[str, Any]:
    """404 until every byte of it is stored and its digest is verified."""
    with caller.reading() as connection:
        row = content_queries.read_bundle_facts(connection, digest)
    if row is None:
        raise NotFound
    return {**row, "type": "content", "url": url_of("content", digest)}


_BODY: Final = {
    "requestBody": {
        "required": True,
        "description": "The bundle: a tar archive of regular files, directories and links that stay"
        " inside, compressed with zstd.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.put(
    "/{digest}/",
    summary="Upload a bundle",
    status_code=201,
    response_model=Bundle,
    responses={200: {"model": Bundle, "description": "It was stored already."}},
    openapi_extra=_BODY,
)
@router.post(
    "/{digest}/",
    summary="Upload a bundle",
    status_code=201,
    response_model=Bundle,
    responses={200: {"model": Bundle, "description": "It was stored already."}},
    openapi_extra=_BODY,
)
async def put_bundle(
    caller: CallerParameter, request: Request, response: Response, digest: Digest
) -> dict[str, Any]:
    """The body is stored as it arrives; nothing of it can be seen until it is whole and verified."""
    settings = caller.services.settings
    limits = store_content.Limits(settings.max_bundle_bytes, settings.max_bundle_unpacked_bytes)
    await to_thread.run_sync(caller.check)
    caller.services.check_writable()
    stream = request.stream()

    def store() -> bool:
        with unavailable_when_away():
            return store_content.store_bundle(
                caller.services.engine, digest, _chunks(stream), limits=limits
            ).created

    created = await to_thread.run_sync(store, limiter=_limiter(request))
    response.status_code = 201 if created else 200
    response.headers["Location"] = url_of("content", digest)
    return await to_thread.run_sync(partial(get_bundle, caller, digest))


def _chunks(stream: AsyncIterator[bytes]) -> Iterator[bytes]:
    """The body's pieces, asked for from the thread that stores them: never more than one in memory."""

    async def following() -> bytes | None:
        return await anext(stream, None)

    while True:
        chunk = from_thread.run(following)
        if chunk is None:
            return
        if chunk:
            yield chunk


def _limiter(request: Request) -> CapacityLimiter:
    """Made on first use, because it belongs to the running event loop."""
    state = request.app.state
    if not hasattr(state, "uploads"):
        state.uploads = CapacityLimiter(_UPLOADS)
    found: CapacityLimiter = state.uploads
    return found
