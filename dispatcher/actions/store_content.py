"""Content bundles: stored whole and verified or not at all, in rows of 1 MiB.

An upload is read into a temporary file first and checked on the way: the database sees nothing of
one that is broken off or refused, no transaction waits for a slow sender, and whoever uploads the
same bundle at the same time writes the same rows.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Final, cast

import zstandard
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import IntegrityError

from dispatcher.db.engine import transaction
from dispatcher.domain.bundle import MOST_WINDOW, BundleCheck, BundleError, Contents
from dispatcher.domain.launch_checks import digest_problem
from dispatcher.domain.tar_stream import TarError, TarStream
from dispatcher.errors import InvalidRequest, NotFound, Unavailable

CHUNK_BYTES: Final = 1 << 20
#: Chunks in one transaction.
_CHUNKS_AT_ONCE: Final = 4
#: Bytes of an upload that stay in memory.
_MEMORY_BYTES: Final = 4 << 20
#: Bytes that are decompressed at once.
_PIECE_BYTES: Final = 128 << 10
#: Bytes of headers and padding that an archive may have for each byte allowed for its files, and
#: a fixed share, so that an archive of many small files is not refused for its form.
_FORM_SHARE: Final = 2
_FORM_BYTES: Final = 64 << 20
#: A bundle that was renewed less than this ago is not renewed again.
_RENEW_SECONDS: Final = 60
_TRIES: Final = 3


@dataclass(frozen=True)
class Limits:
    """Most bytes of a bundle: as it is sent, and of the files in it."""

    packed: int
    unpacked: int


@dataclass(frozen=True)
class StoredBundle:
    """A bundle that is stored. ``created`` is false when it was there already."""

    digest: str
    size: int
    unpacked_size: int
    created: bool


def missing(connection: Connection, digests: Sequence[str]) -> list[str]:
    """Which of these bundles are not stored here, each once, in the order given.

    Those that are there are renewed, so that they stay until a run refers to them.
    """
    wanted = {"digests": list(digests)}
    present = set(
        connection.scalars(
            text("SELECT digest FROM content_bundle WHERE complete AND digest = ANY(:digests)"),
            wanted,
        )
    )
    connection.execute(
        text(
            """
            WITH stale AS (
                SELECT digest FROM content_bundle
                WHERE complete AND digest = ANY(:digests)
                  AND last_used < dispatcher_now() - make_interval(secs => :seconds)
                ORDER BY digest FOR NO KEY UPDATE  -- one order, so that two never deadlock
            )
            UPDATE content_bundle SET last_used = dispatcher_now()
            FROM stale WHERE content_bundle.digest = stale.digest
            """
        ),
        wanted | {"seconds": _RENEW_SECONDS},
    )
    return [digest for digest in dict.fromkeys(digests) if digest not in present]


def store_bundle(
    engine: Engine, digest: str, chunks: Iterator[bytes], *, limits: Limits
) -> StoredBundle:
    """Read, check and store a bundle. One that is stored already is read and left as it is.

    Args:
        digest: sha256 of its bytes, in hex.
        chunks: its bytes as they arrive; an error raised there ends the upload.
        limits: most bytes.

    Raises:
        InvalidRequest: too large, not a bundle, with a member that is not allowed, or with
            another digest; nothing is stored.
        Unavailable: this machine has no room for it.
    """
    problem = digest_problem(digest)
    if problem is not None:
        raise InvalidRequest({"digest": problem})
    with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as file:
        upload = _Upload(chunks, file, limits.packed)
        contents = _check(upload, limits.unpacked)
        if upload.digest() != digest:
            raise InvalidRequest({"digest": f"the bytes have the digest {upload.digest()}"})
        for _ in range(_TRIES):
            try:
                created = _store(engine, digest, upload, contents)
            except IntegrityError:
                created = None
            if created is not None:
                return StoredBundle(digest, upload.size, contents.unpacked_size, created)
            # unused parts of it were being removed at the same time: again from the start
    raise Unavailable("the bundle is being removed at this moment", retry_after=1)


def read_bundle(connection: Connection, digest: str) -> Iterator[bytes]:
    """The bytes of a bundle, chunk by chunk; one query for each.

    Raises:
        NotFound: it is not stored, or not whole.
    """
    size: int | None = connection.scalar(
        text("SELECT size FROM content_bundle WHERE digest = :digest AND complete"),
        {"digest": digest},
    )
    if size is None:
        raise NotFound(f"no content {digest}")
    left, number = size, 0
    while left > 0:
        chunk: bytes | None = connection.scalar(
            text("SELECT bytes FROM content_chunk WHERE digest = :digest AND number = :number"),
            {"digest": digest, "number": number},
        )
        if chunk is None:
            raise NotFound(f"content {digest} has lost its chunk {number}")
        left, number = left - len(chunk), number + 1
        yield bytes(chunk)


class _Upload:
    """The bytes of an upload as a file to read once, kept and counted on the way."""

    def __init__(self, chunks: Iterator[bytes], file: IO[bytes], limit: int) -> None:
        self._chunks = chunks
        self._rest = b""
        self._file = file
        self._limit = limit
        self._sha256 = hashlib.sha256()
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes; nothing at the end."""
        while not self._rest:
            piece = next(self._chunks, None)
            if piece is None:
                return b""
            self._keep(bytes(piece))
        taken = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(taken) :]
        return taken

    def _keep(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > self._limit:
            raise InvalidRequest({"content": f"larger than {self._limit} bytes"})
        self._sha256.update(piece)
        try:
            self._file.write(piece)
        except OSError as error:
            raise Unavailable(f"no room for the upload on this server: {error}") from None
        self._rest = piece

    def digest(self) -> str:
        """The sha256 of all bytes, in hex."""
        return self._sha256.hexdigest()

    def kept(self) -> Iterator[tuple[int, bytes]]:
        """The bytes once more: number and content of each chunk."""
        self._file.seek(0)
        number = 0
        while chunk := self._file.read(CHUNK_BYTES):
            yield number, chunk
            number += 1


def _check(upload: _Upload, unpacked_limit: int) -> Contents:
    """Decompress and check an upload while it arrives, in bounded memory."""
    check = BundleCheck(unpacked_limit=unpacked_limit)
    tar = TarStream()
    decompressor = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW)
    most = _FORM_SHARE * unpacked_limit + _FORM_BYTES
    try:
        # across frames: some programs compress in several; anything else behind one is an error
        with decompressor.stream_reader(
            cast(IO[bytes], upload), read_size=_PIECE_BYTES, read_across_frames=True, closefd=False
        ) as plain:
            while piece := plain.read(_PIECE_BYTES):
                most -= len(piece)
                if most < 0:
                    raise BundleError(f"its files have more than {unpacked_limit} bytes")
                for member in tar.feed(piece):
                    check.add(member)
        if upload.size == 0:
            raise BundleError("the upload is empty")
        tar.close()
        return check.finish()
    except zstandard.ZstdError as error:
        raise InvalidRequest({"content": f"not a zstd stream: {error}"}) from None
    except (TarError, BundleError) as error:
        raise InvalidRequest({"content": str(error)}) from None


def _store(engine: Engine, digest: str, upload: _Upload, contents: Contents) -> bool | None:
    """Write the rows in short transactions.

    Returns:
        Whether this call completed the bundle, or another had done so; None when it is gone again.
    """
    with transaction(engine) as connection:
        complete = connection.scalar(
            text(
                """
                INSERT INTO content_bundle (digest, size, unpacked_size, paths)
                VALUES (:digest, :size, :unpacked_size, :paths)
                ON CONFLICT (digest) DO UPDATE SET last_used = dispatcher_now()
                RETURNING complete
                """
            ),
            {
                "digest": digest,
                "size": upload.size,
                "unpacked_size": contents.unpacked_size,
                "paths": None if contents.paths is None else list(contents.paths),
            },
        )
    if complete:
        return False
    batch: list[dict[str, object]] = []
    for number, chunk in upload.kept():
        batch.append({"digest": digest, "number": number, "bytes": chunk})
        if len(batch) == _CHUNKS_AT_ONCE:
            _insert_chunks(engine, batch)
            batch = []
    _insert_chunks(engine, batch)
    with transaction(engine) as connection:
        completed = connection.execute(
            text(
                """
                UPDATE content_bundle SET complete = true, last_used = dispatcher_now()
                WHERE digest = :digest AND NOT complete AND size = (
                    SELECT sum(octet_length(bytes)) FROM content_chunk WHERE digest = :digest)
                """
            ),
            {"digest": digest},
        )
        if completed.rowcount == 1:
            return True
        by_another = connection.scalar(
            text("SELECT complete FROM content_bundle WHERE digest = :digest"), {"digest": digest}
        )
    return False if by_another else None


def _insert_chunks(engine: Engine, batch: list[dict[str, object]]) -> None:
    if not batch:
        return
    with transaction(engine) as connection:
        connection.execute(
            text(
                "INSERT INTO content_chunk (digest, number, bytes)"
                " VALUES (:digest, :number, :bytes) ON CONFLICT DO NOTHING"
            ),
            batch,
        )
