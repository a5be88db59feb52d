"""The cache of unpacked bundles, on a real directory."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard

from tests.factories import pack
from workers.content_cache import ContentCache
from workers.project_copy import UnsafeBundle


class Shelf:
    """Bundles as the database would give them, and how often it was asked."""

    def __init__(self) -> None:
        self.bundles: dict[str, bytes] = {}
        self.asked: list[str] = []

    def put(self, *, fill: int = 0, **files: str) -> str:
        extra = {"fill": os.urandom(fill)} if fill else {}
        digest, packed, _ = pack(
            {name.replace("_yml", ".yml"): body for name, body in files.items()} | extra
        )
        self.bundles[digest] = packed
        return digest

    @contextmanager
    def fetch(self, digest: str) -> Iterator[Iterator[bytes]]:
        self.asked.append(digest)
        raw = self.bundles[digest]
        yield (raw[first : first + 1000] for first in range(0, len(raw), 1000))


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def cache(tmp_path: Path, shelf: Shelf) -> ContentCache:
    made = ContentCache(tmp_path / "cache", shelf.fetch, bound=50_000, largest=1_000_000)
    made.clear_leftovers()
    return made


def present(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "cache").iterdir()}


def test_a_second_run_of_the_same_content_asks_nobody(
    cache: ContentCache, shelf: Shelf, tmp_path: Path
) -> None:
    digest = shelf.put(site_yml="- hosts: all\n")
    for name in ("a", "b"):
        cache.copy(digest, tmp_path / name)
        assert (tmp_path / name / "site.yml").read_text() == "- hosts: all\n"
    assert shelf.asked == [digest]


def test_a_run_that_changes_its_copy_changes_nobody_elses(
    cache: ContentCache, shelf: Shelf, tmp_path: Path
) -> None:
    digest = shelf.put(site_yml="- hosts: all\n")
    cache.copy(digest, tmp_path / "a")
    (tmp_path / "a" / "site.yml").write_text("changed")
    cache.copy(digest, tmp_path / "b")
    assert (tmp_path / "b" / "site.yml").read_text() == "- hosts: all\n"


def test_the_least_recently_used_content_goes_first(
    cache: ContentCache, shelf: Shelf, tmp_path: Path
) -> None:
    first, second, third = (shelf.put(fill=20_000) for _ in range(3))
    for age, digest in enumerate((second, first)):
        cache.copy(digest, tmp_path / digest)
        os.utime(tmp_path / "cache" / digest, (1_000 + age, 1_000 + age))
    cache.copy(third, tmp_path / third)
    assert present(tmp_path) == {first, third}


def test_content_in_use_is_never_evicted(cache: ContentCache, shelf: Shelf, tmp_path: Path) -> None:
    old, new = shelf.put(fill=40_000), shelf.put(fill=40_000)
    with cache.tree(old) as tree:
        os.utime(tmp_path / "cache" / old, (1_000, 1_000))
        cache.copy(new, tmp_path / "copy")
        assert present(tmp_path) == {old, new}, "rather too much is kept than what is in use taken"
        assert (tree / "fill").stat().st_size == 40_000
    os.utime(tmp_path / "cache" / old, (1_000, 1_000))
    assert cache.evict() == [old]
    assert present(tmp_path) == {new}


def test_content_whose_bytes_are_not_those_of_its_digest_is_refused(
    cache: ContentCache, shelf: Shelf, tmp_path: Path
) -> None:
    digest, other = shelf.put(site_yml="a"), shelf.put(site_yml="b")
    shelf.bundles[digest] = shelf.bundles[other]
    with pytest.raises(UnsafeBundle, match="not those of its digest"):
        cache.copy(digest, tmp_path / "copy")
    assert present(tmp_path) == set()


def test_content_cut_off_in_the_middle_is_refused(
    cache: ContentCache, shelf: Shelf, tmp_path: Path
) -> None:
    digest = shelf.put(fill=5_000)
    shelf.bundles[digest] = shelf.bundles[digest][:2_000]
    with pytest.raises(UnsafeBundle):
        cache.copy(digest, tmp_path / "copy")
    assert present(tmp_path) == set()


def _tar(*members: tuple[str, str, str | bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for kind, name, body in members:
            member = tarfile.TarInfo(name)
            if kind == "link":
                member.type, member.linkname = tarfile.SYMTYPE, str(body)
                tar.addfile(member)
            elif kind == "device":
                member.type = tarfile.CHRTYPE
                tar.addfile(member)
            else:
                raw = body if isinstance(body, bytes) else body.encode()
                member.size, member.mode = len(raw), 0o6777
                tar.addfile(member, io.BytesIO(raw))
    return zstandard.ZstdCompressor().compress(plain.getvalue())


@pytest.mark.parametrize(
    "members",
    [
        [("file", "../out", "x")],
        [("file", "/tmp/out", "x")],
        [("link", "way", "../..")],
        [("link", "way", "/etc")],
        # each is inside by its words, together they lead out
        [("file", "x/y/f", ""), ("link", "x/y/up", "../.."), ("link", "way", "x/y/up/..")],
        [("device", "null", "")],
    ],
)
def test_content_that_leaves_its_tree_is_refused(
    cache: ContentCache, shelf: Shelf, tmp_path: Path, members: list[tuple[str, str, str]]
) -> None:
    digest = "0" * 64
    shelf.bundles[digest] = _tar(*members)
    with pytest.raises(UnsafeBundle):
        cache.copy(digest, tmp_path / "copy")
    assert present(tmp_path) == set()
    assert not (tmp_path / "out").exists()


def test_unpacked_files_are_closed_to_others_and_keep_only_the_right_to_run(
    tmp_path: Path, shelf: Shelf, cache: ContentCache
) -> None:
    packed = _tar(("file", "run.sh", "#!/bin/sh\n"))
    digest = hashlib.sha256(packed).hexdigest()
    shelf.bundles[digest] = packed
    cache.copy(digest, tmp_path / "copy")
    assert stat.S_IMODE((tmp_path / "copy" / "run.sh").stat().st_mode) == 0o700
