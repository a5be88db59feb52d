"""``content/``: what is missing, uploads that arrive piece by piece, what is refused."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from functools import partial

import pytest
import zstandard
from sqlalchemy import Engine, text

from dispatcher.settings import Settings
from tests.api_server import Api, in_thread
from tests.factories import pack
from tests.integration.api.conftest import Shared
from tests.racing import at_once

CONTENT = "/api/v2/content/"


def _put(api: Api, digest: str, raw: bytes, method: str = "PUT") -> tuple[int, dict[str, object]]:
    answer = api.http.request(method, f"{CONTENT}{digest}/", content=raw)
    return answer.status_code, answer.json()


def test_only_what_is_missing_is_asked_for(api: Api) -> None:
    digest, raw, _ = pack({"site.yml": "- hosts: all\n"})
    other = "f" * 64
    ask = {"digests": [other, digest, other]}
    assert api.http.post(CONTENT, json=ask).json() == {"missing": [other, digest]}
    assert _put(api, digest, raw)[0] == 201
    answer = api.http.post(CONTENT, json=ask)
    assert (answer.status_code, answer.json()) == (200, {"missing": [other]})


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_an_upload_is_201_once_and_200_after_that(api: Api, method: str) -> None:
    digest, raw, unpacked = pack({"site.yml": "- hosts: all\n", "a/b.yml": "x" * 100})
    url = f"{CONTENT}{digest}/"
    first, body = _put(api, digest, raw, method)
    assert first == 201
    assert (body["digest"], body["size"], body["unpacked_size"]) == (digest, len(raw), unpacked)
    assert body["url"] == url
    again = api.http.request(method, url, content=raw)
    assert again.status_code == 200
    assert again.headers["Location"] == url
    assert again.json()["created"] == body["created"]
    assert api.http.get(url).json()["digest"] == digest


def test_the_same_upload_at_the_same_time_is_stored_once(api: Api, engine: Engine) -> None:
    digest, raw, _ = pack({"big": os.urandom(5_000_000)})
    codes = at_once([lambda: _put(api, digest, raw)[0]] * 6)
    assert sorted(codes)[:5] == [200] * 5
    assert sorted(codes)[5] == 201
    with engine.begin() as connection:
        assert connection.scalar(text("SELECT count(*) FROM content_bundle")) == 1


def test_an_upload_of_unknown_length_is_taken_as_it_comes(api: Api) -> None:
    digest, raw, _ = pack({"big": os.urandom(3_000_000)})

    def pieces() -> Iterator[bytes]:
        for first in range(0, len(raw), 10_000):
            yield raw[first : first + 10_000]

    assert api.http.put(f"{CONTENT}{digest}/", content=pieces()).status_code == 201


def _tar(*members: tarfile.TarInfo) -> tuple[str, bytes]:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    raw = zstandard.ZstdCompressor().compress(plain.getvalue())
    return hashlib.sha256(raw).hexdigest(), raw


def _member(name: str, **facts: object) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    for fact, value in facts.items():
        setattr(member, fact, value)
    return member


@pytest.mark.parametrize(
    "member",
    [
        _member("../evil"),
        _member("/etc/passwd"),
        _member("a/../../evil"),
        _member("link", type=tarfile.SYMTYPE, linkname="../../etc/passwd"),
        _member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        _member("link", type=tarfile.LNKTYPE, linkname="../x"),
        _member("device", type=tarfile.CHRTYPE),
        _member("pipe", type=tarfile.FIFOTYPE),
        _member("suid", mode=0o4755),
    ],
)
def test_a_bundle_that_leaves_itself_is_refused_and_nothing_is_stored(
    shared: Shared, member: tarfile.TarInfo
) -> None:
    code, body = _put(shared.api, *_tar(member))
    assert (code, list(body)) == (400, ["content"])
    with shared.engine.begin() as connection:
        assert connection.scalar(text("SELECT count(*) FROM content_bundle")) == 0


def test_bytes_that_are_no_bundle_or_another_one_are_refused(shared: Shared) -> None:
    api = shared.api
    digest, raw, _ = pack({"site.yml": "x"})
    assert _put(api, digest, b"")[0] == 400
    assert _put(api, digest, raw[:-5])[0] == 400
    assert _put(api, hashlib.sha256(b"junk").hexdigest(), b"junk")[0] == 400
    code, body = _put(api, "e" * 64, raw)
    assert (code, list(body)) == (400, ["digest"])
    assert api.http.get(f"{CONTENT}{digest}/").status_code == 404


def test_a_digest_has_one_form(shared: Shared) -> None:
    api = shared.api
    for digest in ("x", "A" * 64, "a" * 63, "a" * 65, "..%2f" + "a" * 59):
        assert api.http.put(f"{CONTENT}{digest}/", content=b"x").status_code == 404
        assert api.http.get(f"{CONTENT}{digest}/").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "digests"),
        ({"digests": "x"}, "digests"),
        ({"digests": ["x"]}, "digests.0"),
        ({"digests": [1]}, "digests.0"),
        ({"digests": ["a" * 64] * 1001}, "digests"),
        ({"digests": [], "more": 1}, "more"),
        ([], "body"),
        ("x", "body"),
        (None, "body"),
    ],
)
def test_a_question_of_another_form_is_400_by_field(
    shared: Shared, body: object, field: str
) -> None:
    answer = shared.api.http.post(CONTENT, json=body)
    assert (answer.status_code, list(answer.json())) == (400, [field])


def test_an_upload_beyond_its_bound_is_refused_before_it_is_read(
    settings: Settings, engine: Engine
) -> None:
    small = settings.model_copy(update={"max_bundle_bytes": 50_000, "max_body_bytes": 5_000})
    with in_thread(small, engine) as api:
        digest, raw, _ = pack({"big": os.urandom(60_000)})
        assert _put(api, digest, raw) == (400, {"content": ["larger than 50000 bytes"]})
        announced = api.http.put(f"{CONTENT}{digest}/", content=iter([raw]))
        assert (announced.status_code, list(announced.json())) == (400, ["content"])
        digest, raw, _ = pack({"fits": os.urandom(40_000)})
        assert _put(api, digest, raw)[0] == 201


def test_an_upload_that_breaks_off_leaves_nothing(api: Api, engine: Engine) -> None:
    digest, raw, _ = pack({"big": os.urandom(2_000_000)})

    def pieces() -> Iterator[bytes]:
        yield raw[:1_000_000]
        raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError):
        api.http.put(f"{CONTENT}{digest}/", content=pieces())
    assert api.http.get(f"{CONTENT}{digest}/").status_code == 404
    assert _put(api, digest, raw)[0] == 201
    with engine.begin() as connection:
        assert connection.scalar(text("SELECT count(*) FROM content_chunk")) == 2


def test_slow_uploads_leave_threads_for_others(api: Api) -> None:
    """More uploads than may run at once, all of them waiting for their sender."""
    digest, raw, _ = pack({"big": os.urandom(200_000)})
    answered = []

    def slow(number: int) -> int:
        def pieces() -> Iterator[bytes]:
            yield raw[:100_000]
            if number == 11:
                answered.extend(api.http.get("/api/v2/jobs/").status_code for _ in range(20))
            yield raw[100_000:]

        return api.http.put(f"{CONTENT}{digest}/", content=pieces()).status_code

    assert set(at_once([partial(slow, number) for number in range(12)])) == {200, 201}
    assert answered == [200] * 20
