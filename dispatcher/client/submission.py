"""From a directory to an accepted job: pack, launch once, upload only what the server lacks."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from dispatcher.client.answers import Job
from dispatcher.client.client import Client
from dispatcher.client.pack import Bundle
from dispatcher.domain.launch import RunRequest
from dispatcher.errors import Conflict


def request_body(request: RunRequest) -> dict[str, Any]:
    """The request as the body of ``runs/``: what is at its default is left out."""
    body: dict[str, Any] = {}
    for field in fields(request):
        value = getattr(request, field.name)
        if isinstance(value, tuple):
            value = list(value)
        if value not in (field.default, None, {}, []):
            body[field.name] = value
    return body


def submit(
    client: Client,
    request: RunRequest,
    bundle: Bundle,
    *,
    idempotency_key: str | None = None,
    on_upload: Callable[[Bundle], None] = lambda bundle: None,
) -> tuple[Job, bool]:
    """Launch a run of a packed directory.

    The launch is tried first: it names what the server lacks, and nothing is uploaded when it
    lacks nothing. A repeated call after a lost answer finds the job by its key.

    Args:
        idempotency_key: the caller's own; default a new one for this call.
        on_upload: called before an upload.

    Returns:
        The job, and whether this call made it.
    """
    key = idempotency_key or str(uuid.uuid4())
    body = request_body(request)
    try:
        return client.launch(body, idempotency_key=key)
    except Conflict as conflict:
        if conflict.code != "content_missing":
            raise
    on_upload(bundle)
    client.upload(bundle)
    return client.launch(body, idempotency_key=key)
