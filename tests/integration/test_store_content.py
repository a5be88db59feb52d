"""Bundles: whole and verified, or nothing; also when many come at once or one breaks off."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from sqlalchemy import Engine, event, select, text

from dispatcher.actions.store_content import (
    CHUNK_BYTES,
    Limits,
    StoredBundle,
    missing,
    read_bundle,
    store_bundle,
)
from dispatcher.client import pack as client_pack
from dispatcher.db import tables as t
from dispatcher.db.engine import transaction
from dispatcher.domain.bundle import candidates
from dispatcher.errors import InvalidRequest, NotFound
from tests.factories import pack
from tests.racing import at_once

LIMITS = Limits(packed=20_000_000, unpacked=50_000_000)
FILES = {"site.yml": "- hosts: all\n", "roles/a/tasks/main.yml": "[]\n"}


def pieces(raw: bytes, size: int = 10_000) -> Iterator[bytes]:
    return (raw[first : first + size] for first in range(0, len(raw), size))


def store(engine: Engine, raw: bytes, **given: Any) -> StoredBundle:
    digest = given.pop("digest", hashlib.sha256(raw).hexdigest())
    return store_bundle(engine, digest, pieces(raw), limits=given.pop("limits", LIMITS))


def refused(engine: Engine, raw: bytes, **given: Any) -> str:
    """The words with which an upload is refused; nothing of it may be stored."""
    with pytest.raises(InvalidRequest) as caught:
        store(engine, raw, **given)
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM content_bundle")).scalar() == 0
        assert connection.execute(text("SELECT count(*) FROM content_chunk")).scalar() == 0
    return str(caught.value)


def large_bundle() -> tuple[str, bytes, int]:
    """One that does not shrink when it is packed, of some 3.5 MiB."""
    return pack({"site.yml": "- hosts: all\n", "noise": os.urandom(3_700_000)})


def archive(*members: tarfile.TarInfo) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return zstandard.compress(plain.getvalue())


def test_a_bundle_is_stored_in_chunks_and_read_again(engine: Engine) -> None:
    digest, raw, size = large_bundle()
    stored = store(engine, raw)
    assert stored == StoredBundle(digest, len(raw), size, True)
    with transaction(engine) as connection:
        assert b"".join(read_bundle(connection, digest)) == raw
        lengths = connection.execute(
            text("SELECT octet_length(bytes) FROM content_chunk ORDER BY number")
        ).scalars()
        *full, last = lengths
        assert full == [CHUNK_BYTES] * 3
        assert 0 < last <= CHUNK_BYTES
        paths = connection.execute(select(t.content_bundle.c.paths)).scalar_one()
        assert set(candidates("site.yml")) & set(paths)


def test_a_second_upload_changes_nothing(engine: Engine) -> None:
    _, raw, size = pack(FILES)
    assert store(engine, raw).created
    again = store(engine, raw)
    assert (again.created, again.size, again.unpacked_size) == (False, len(raw), size)
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM content_chunk")).scalar() == 1


def test_uploads_of_one_bundle_at_once_all_succeed_and_one_makes_it(engine: Engine) -> None:
    digest, raw, _ = large_bundle()
    results = at_once([lambda: store(engine, raw)] * 4)
    assert all(isinstance(r, StoredBundle) for r in results), results
    assert sum(r.created for r in results) == 1
    with transaction(engine) as connection:
        assert b"".join(read_bundle(connection, digest)) == raw


def test_an_upload_that_breaks_off_leaves_nothing_and_the_next_one_succeeds(
    engine: Engine,
) -> None:
    digest, raw, _ = large_bundle()

    def broken() -> Iterator[bytes]:
        yield raw[:2_000_000]
        raise ConnectionResetError("the client went away")

    with pytest.raises(ConnectionResetError):
        store_bundle(engine, digest, broken(), limits=LIMITS)
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM content_bundle")).scalar() == 0
    assert store(engine, raw).created


def test_a_bundle_whose_last_chunks_are_not_stored_is_not_there_until_it_is_sent_again(
    engine: Engine,
) -> None:
    """The process that stored it died between two transactions."""
    digest, raw, _ = large_bundle()
    store(engine, raw)
    with transaction(engine) as connection:
        connection.execute(text("UPDATE content_bundle SET complete = false"))
        connection.execute(text("DELETE FROM content_chunk WHERE number = 2"))
    with transaction(engine) as connection:
        assert missing(connection, [digest]) == [digest]
        with pytest.raises(NotFound):
            next(read_bundle(connection, digest))
    assert store(engine, raw).created
    with transaction(engine) as connection:
        assert b"".join(read_bundle(connection, digest)) == raw


def test_a_bundle_that_is_removed_while_it_is_stored_is_stored_again(engine: Engine) -> None:
    digest, raw, _ = large_bundle()
    removed: list[int] = []

    def remove_once(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if "INSERT INTO content_chunk" in statement and not removed:
            removed.append(1)
            with transaction(engine) as other:
                other.execute(text("DELETE FROM content_bundle WHERE NOT complete"))

    event.listen(engine, "before_cursor_execute", remove_once)
    try:
        assert store(engine, raw).created
    finally:
        event.remove(engine, "before_cursor_execute", remove_once)
    assert removed
    with transaction(engine) as connection:
        assert b"".join(read_bundle(connection, digest)) == raw


def test_another_digest_is_refused(engine: Engine) -> None:
    _, raw, _ = pack(FILES)
    assert "the bytes have the digest" in refused(engine, raw, digest="0" * 64)
    assert "digest" in refused(engine, raw, digest="XYZ")


def test_a_bundle_larger_than_allowed_is_refused_before_it_is_all_read(engine: Engine) -> None:
    digest, raw, _ = large_bundle()
    read = 0

    def counted() -> Iterator[bytes]:
        nonlocal read
        for piece in pieces(raw):
            read += len(piece)
            yield piece

    with pytest.raises(InvalidRequest, match="larger than 1000000 bytes"):
        store_bundle(engine, digest, counted(), limits=Limits(1_000_000, 50_000_000))
    assert read < 1_100_000
    assert "more than 1000000 bytes" in refused(engine, raw, limits=Limits(10_000_000, 1_000_000))


@pytest.mark.parametrize("what", ["file", "stream", "header"])
def test_a_bomb_is_refused_in_bounded_memory(engine: Engine, what: str) -> None:
    huge = tarfile.TarInfo("zeros")
    huge.size = 3_000_000_000
    if what == "header":
        huge.type = tarfile.XHDTYPE
    head = huge.tobuf(tarfile.GNU_FORMAT) if what != "stream" else b"\0" * 1024
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    zeros = bytes(1 << 20)
    raw = compressor.compress(head)
    raw += b"".join(compressor.compress(zeros) for _ in range(300)) + compressor.flush()
    assert len(raw) < 100_000
    tracemalloc.start()
    try:
        words = refused(engine, raw, limits=Limits(1_000_000, 10_000_000))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert "bytes" in words or "impossible size" in words


def test_what_is_not_a_bundle_is_refused(engine: Engine) -> None:
    assert "empty" in refused(engine, b"")
    assert "not a zstd stream" in refused(engine, b"PK\x03\x04 this is a zip file")
    assert "not a tar archive" in refused(engine, zstandard.compress(b"no archive" * 100))
    _, raw, _ = pack(FILES)
    assert "not a zstd stream" in refused(engine, raw + b"trailing bytes")
    assert "cut off" in refused(engine, zstandard.compress(zstandard.decompress(raw)[:700]))
    wide = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    greedy = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    words = refused(engine, greedy.compress(zstandard.decompress(raw)) + greedy.flush())
    assert "too much memory" in words


def test_members_that_are_not_allowed_are_refused(engine: Engine) -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "../../etc/passwd"
    assert "leaves the bundle" in refused(engine, archive(link))
    outside = tarfile.TarInfo("../site.yml")
    assert "'..'" in refused(engine, archive(outside))
    device = tarfile.TarInfo("null")
    device.type = tarfile.CHRTYPE
    assert "device" in refused(engine, archive(device))


def test_several_frames_are_one_bundle(engine: Engine) -> None:
    plain = zstandard.decompress(pack(FILES)[1])
    raw = zstandard.compress(plain[:700]) + zstandard.compress(plain[700:])
    assert store(engine, raw).created


def test_what_the_client_packs_is_accepted(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "roles" / ("long" * 40)).mkdir(parents=True)
    (tmp_path / "roles" / ("long" * 40) / "ünï.yml").write_text("[]\n")
    (tmp_path / "run me.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run me.sh").chmod(0o755)
    (tmp_path / "current").symlink_to("roles")
    with client_pack.pack(tmp_path) as bundle:
        stored = store_bundle(engine, bundle.digest, bundle.chunks(), limits=LIMITS)
        assert (stored.size, stored.unpacked_size) == (bundle.size, bundle.unpacked_size)


def test_asking_what_is_missing_renews_what_is_there(engine: Engine) -> None:
    digest, raw, _ = pack(FILES)
    store(engine, raw)
    with transaction(engine) as connection:
        assert missing(connection, ["1" * 64, digest, "0" * 64, "1" * 64]) == ["1" * 64, "0" * 64]
        assert missing(connection, []) == []
        used = select(t.content_bundle.c.last_used)
        fresh = connection.execute(used).scalar_one()
        missing(connection, [digest])
        assert connection.execute(used).scalar_one() == fresh, "fresh ones are not written again"
        connection.execute(
            text("UPDATE content_bundle SET last_used = last_used - '20 h'::interval")
        )
        missing(connection, [digest])
        assert connection.execute(used).scalar_one() >= fresh


def test_reading_what_is_not_there_says_so(engine: Engine) -> None:
    with transaction(engine) as connection, pytest.raises(NotFound):
        next(read_bundle(connection, "0" * 64))
