"""``jobs/N/stdout/``: the output, streamed batch by batch; no connection is held between batches."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from dispatcher.api import terminal
from dispatcher.api.auth import Caller, CallerParameter
from dispatcher.api.v2.jobs import JobId, state_of
from dispatcher.api.v2.resource import Row
from dispatcher.db import event_queries
from dispatcher.db.job_state import JobState

router = APIRouter(prefix="/api/v2/jobs", tags=["jobs"])

Format = Literal["txt", "ansi", "json", "html", "txt_download", "ansi_download"]

_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class _Range:
    """Lines of the output: ``start`` up to ``end``, of ``absolute_end`` so far."""

    start: int
    end: int
    absolute_end: int
    last_counter: int


def _range(caller: Caller, state: JobState, start: int, end: int | None) -> _Range:
    with caller.reading() as connection:
        counter, absolute = event_queries.read_last(connection, state.job_day, state.id)
    if end is None:
        # a last line without its end has the number of the line that would follow
        return _Range(start, absolute + 1, absolute, counter)
    return _Range(start, min(end, absolute + 1), absolute, counter)


def _texts(caller: Caller, state: JobState, lines: _Range) -> Iterator[str]:
    """The lines of a range, piece by piece."""
    after = 0
    if lines.start > 0:
        with caller.reading() as connection:
            after = event_queries.counter_before_line(
                connection,
                state.job_day,
                state.id,
                line=lines.start - 1,
                last_counter=lines.last_counter,
            )
    while after < lines.last_counter:
        with caller.reading() as connection:
            batch = event_queries.read_output(
                connection, state.job_day, state.id, after=after, upto=lines.last_counter
            )
        if not batch:
            return  # past its retention
        # one piece for a batch: each piece is a hop to a thread and a write to the socket
        yield "".join(_text(event, lines) for event in batch)
        after = batch[-1]["counter"]
        if batch[-1]["start_line"] >= lines.end:
            return


def _text(event: Row, lines: _Range) -> str:
    """What an event adds to a range of lines."""
    first, last = event["start_line"], event["end_line"]
    # an event's text has no line end of its own; its numbers say whether there was one
    text: str = event["stdout"] + "\n" if last > first else event["stdout"]
    if lines.start <= first and last <= lines.end and first < lines.end:
        return text
    parts = text.split("\n")
    whole = [part + "\n" for part in parts[:-1]] + parts[-1:]
    return "".join(whole[max(0, lines.start - first) : max(0, lines.end - first)])


def _as_json(texts: Iterator[str], lines: _Range) -> Iterator[str]:
    shown = {
        "start": lines.start,
        "end": min(lines.end, lines.absolute_end),
        "absolute_end": lines.absolute_end,
    }
    yield f'{{"range": {json.dumps(shown)}, "content": "'
    for text in texts:
        yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield '"}'


def _as_page(texts: Iterator[str], title: str) -> Iterator[str]:
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title>\n<style>{terminal.STYLE}</style></head>\n<body><pre>"
    )
    yield from texts
    yield "</pre></body></html>\n"


def _negotiated(accept: str) -> Format:
    if "text/html" in accept:
        return "html"
    return "json" if "application/json" in accept else "txt"


@router.get(
    "/{job_id}/stdout/",
    summary="The output of a job",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The output so far. JSON: `range` with `start`, `end` and"
            " `absolute_end` (lines), and `content`.",
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "text/html": {"schema": {"type": "string"}},
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {
                            "range": {
                                "type": "object",
                                "description": "Lines: `start`, `end`, `absolute_end` so far.",
                            },
                            "content": {"type": "string", "description": "The lines."},
                        },
                    }
                },
            },
        }
    },
)
def get_stdout(
    request: Request,
    caller: CallerParameter,
    job_id: JobId,
    format: Annotated[
        Format | None,
        Query(
            description="`txt`: no colors; `ansi`: with colors; `html`: a page; `json`: a range of"
            " lines; `…_download`: as a file. Default by the Accept header, else `txt`."
        ),
    ] = None,
    content_format: Annotated[
        Literal["ansi", "txt", "html"], Query(description="What `content` holds with `json`.")
    ] = "ansi",
    start_line: Annotated[
        int, Query(ge=0, lt=2**62, description="First line, from 0; with every format.")
    ] = 0,
    end_line: Annotated[
        int | None, Query(ge=0, lt=2**62, description="Line before which to stop.")
    ] = None,
) -> StreamingResponse:
    """What the playbook wrote so far, with `\\n` as the end of each line.

    Control sequences other than colors are left out, so that no output can move a reader's cursor;
    in HTML everything is escaped. An answer that is cut short (the connection ends before its last
    chunk) is not whole.
    """
    chosen = format or _negotiated(request.headers.get("accept", ""))
    state = state_of(caller, job_id)
    lines = _range(caller, state, start_line, end_line)
    texts = _texts(caller, state, lines)
    headers = {"Cache-Control": "no-store"}
    if chosen == "json":
        render = {"ansi": terminal.colored, "txt": terminal.plain, "html": terminal.as_html}
        body = _as_json(render[content_format](texts), lines)
        return StreamingResponse(body, media_type="application/json", headers=headers)
    if chosen == "html":
        # nothing but the page itself and its style may be loaded or run
        headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
        page = _as_page(terminal.as_html(texts), f"Job {job_id}")
        return StreamingResponse(page, media_type="text/html; charset=utf-8", headers=headers)
    if chosen.endswith("_download"):
        headers["Content-Disposition"] = f'attachment; filename="job_{job_id}.txt"'
    shown = terminal.colored(texts) if chosen.startswith("ansi") else terminal.plain(texts)
    return StreamingResponse(shown, media_type=_TEXT, headers=headers)
