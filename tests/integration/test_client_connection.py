"""What the client makes of answers, of "later", and of no answer at all."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from dispatcher.client.client import Client
from dispatcher.client.connection import Connection
from dispatcher.client.errors import NotAllowed, ServerUnreachable, UnexpectedAnswer
from dispatcher.client.pack import pack
from dispatcher.client.submission import submit
from dispatcher.domain.launch import RunRequest
from dispatcher.errors import (
    ConfigurationError,
    Conflict,
    DispatcherError,
    InvalidRequest,
    NotCancelable,
    NotFound,
    Unavailable,
)
from tests.scripted_server import Answer, Asked, scripted_server

JOB = {"id": 7, "name": "site.yml", "status": "pending"}


def client(url: str, *, patience: float = 10.0) -> Client:
    return Client(Connection(url, "dsp_x", patience=patience))


def in_turn(*answers: Answer) -> Callable[[Asked], Answer]:
    """These answers one after the other; the last one for ever."""
    left = itertools.chain(answers, itertools.repeat(answers[-1]))
    return lambda asked: next(left)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (Answer(400, {"limit": ["must not start with -"]}), InvalidRequest, "limit: must not"),
        (Answer(400, {"detail": "out of range"}), InvalidRequest, "out of range"),
        (Answer(413, b"<html>"), InvalidRequest, "413"),
        (Answer(401, {"detail": "Invalid token."}), NotAllowed, "Invalid token"),
        (Answer(403, {"detail": "no"}), NotAllowed, "no"),
        (Answer(404, {"detail": "Not found."}), NotFound, "Not found"),
        (Answer(405, {"detail": "has ended"}), NotCancelable, "has ended"),
        (Answer(409, {"detail": "other body", "code": "key_reused"}), Conflict, "other body"),
        (Answer(500, {"detail": "see the log"}), UnexpectedAnswer, "answered 500: see the log"),
        (Answer(302, b"", {"Location": "http://elsewhere/"}), UnexpectedAnswer, "302"),
        (Answer(503, {"detail": "the database is away"}), Unavailable, "database is away"),
    ],
)
def test_an_answer_becomes_the_error_it_stands_for(
    answer: Answer, error: type[DispatcherError], words: str
) -> None:
    with scripted_server(in_turn(answer)) as (url, asked):
        with pytest.raises(error, match=words):
            client(url, patience=0).job(7)
        assert len(asked) == 1


def test_a_call_is_repeated_while_the_server_says_later_or_nothing() -> None:
    script = in_turn(
        Answer(0),
        Answer(503, {"detail": "away"}),
        Answer(502, b"Bad Gateway"),
        Answer(429, {"detail": "slow down"}, {"Retry-After": "0"}),
        Answer(200, JOB),
    )
    with scripted_server(script) as (url, asked):
        assert client(url).job(7).id == 7
        assert len(asked) == 5


def test_a_launch_whose_answer_was_lost_is_repeated_with_the_same_key(tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text("[]")
    known: dict[str, int] = {}

    def script(asked: Asked) -> Answer:
        if asked.method == "PUT":
            return Answer(201, {})
        key = asked.headers["Idempotency-Key"]
        if not known:
            known[key] = 7
            return Answer(0)  # accepted, and the answer lost
        return Answer(200, JOB) if key in known else Answer(201, {**JOB, "id": 8})

    with scripted_server(script) as (url, asked), pack(tmp_path) as bundle:
        request = RunRequest("site.yml", bundle.digest, inventory="h\n")
        job, created = submit(client(url), request, bundle)
    assert (job.id, created) == (7, False)
    assert len({a.body for a in asked}) == 1


def test_content_is_uploaded_only_when_the_server_lacks_it_also_after_a_broken_upload(
    tmp_path: Path,
) -> None:
    (tmp_path / "site.yml").write_text("[]")
    uploads: list[bytes] = []

    def script(asked: Asked) -> Answer:
        if asked.method == "PUT":
            uploads.append(asked.body)
            return Answer(0) if len(uploads) == 1 else Answer(201, {})
        if len(uploads) < 2:
            return Answer(409, {"detail": "upload it", "code": "content_missing", "missing": []})
        return Answer(201, JOB)

    with scripted_server(script) as (url, asked), pack(tmp_path) as bundle:
        request = RunRequest("site.yml", bundle.digest, inventory="h\n")
        submit(client(url), request, bundle)
        assert [a.method for a in asked] == ["POST", "PUT", "PUT", "POST"]
        assert uploads == [b"".join(bundle.chunks())] * 2
        submit(client(url), request, bundle)
        assert [a.method for a in asked[4:]] == ["POST"]
        assert asked[1].path == f"/api/v2/content/{bundle.digest}/"


def test_a_launch_still_in_progress_is_waited_for() -> None:
    busy = Answer(409, {"detail": "wait", "code": "in_progress"}, {"Retry-After": "0"})
    with scripted_server(in_turn(busy, Answer(200, JOB))) as (url, asked):
        job, created = client(url).launch({}, idempotency_key="k")
        assert (job.id, created, len(asked)) == (7, False, 2)


def test_nobody_listening_and_nobody_answering_are_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        connection = Connection(f"http://127.0.0.1:{port}", None, patience=0)
        with pytest.raises(ServerUnreachable, match="no answer in time"):
            connection.send("GET", "ping/", timeout=(1, 0.2))
    with pytest.raises(ServerUnreachable, match=rf"^http://127.0.0.1:{port}: Connection refused$"):
        client(f"http://127.0.0.1:{port}", patience=0).job(1)


def test_a_netrc_entry_or_a_proxy_of_the_environment_never_comes_between(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with scripted_server(in_turn(Answer(200, JOB))) as (url, asked):
        client(url).job(7)
        assert asked[0].headers["Authorization"] == "Bearer dsp_x"


@pytest.mark.parametrize("url", ["127.0.0.1:8052", "ftp://x/", "http://", "file:///etc/passwd"])
def test_a_url_that_is_none_is_named(url: str) -> None:
    with pytest.raises(ConfigurationError, match="DISPATCHER_URL"):
        Connection(url, None)


def test_lists_are_read_page_by_page_up_to_the_limit() -> None:
    def script(asked: Asked) -> Answer:
        query = dict(part.split("=") for part in asked.path.split("?")[1].split("&"))
        page, size = int(query["page"]), int(query["page_size"])
        first = (page - 1) * size
        results = [{**JOB, "id": 1000 - n} for n in range(first, min(first + size, 450))]
        return Answer(
            200, {"count": 450, "next": "more" if first + size < 450 else None, "results": results}
        )

    with scripted_server(script) as (url, asked):
        assert [job.id for job in client(url).jobs(limit=3)] == [1000, 999, 998]
        assert len(client(url).jobs(limit=10_000)) == 450
        assert len(client(url).jobs(limit=250)) == 250
        assert len(asked) == 1 + 3 + 2
