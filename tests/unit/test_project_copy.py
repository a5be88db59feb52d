"""Bundles on a node: nothing leaves its directory, nothing dangerous survives."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from tests.factories import pack
from workers.project_copy import UnsafeBundle, copy_tree, unpack


def member(name: str, **attributes: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    content = b"x" if attributes.get("type", tarfile.REGTYPE) == tarfile.REGTYPE else b""
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    info.size = len(content)
    return info, content


def bundle(*members: tuple[tarfile.TarInfo, bytes]) -> Iterator[bytes]:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    packed = zstandard.ZstdCompressor().compress(plain.getvalue())
    return (packed[start : start + 100] for start in range(0, len(packed), 100))


def link(name: str, to: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.SYMTYPE, linkname=to)


def hard(name: str, to: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.LNKTYPE, linkname=to)


def test_what_was_packed_comes_out(tmp_path: Path) -> None:
    _, packed, size = pack({"site.yml": "- hosts: all\n", "roles/a/tasks/main.yml": b"\xff" * 9999})
    target = tmp_path / "t"
    found = unpack([packed[:7], b"", packed[7:]], target, max_bytes=10**6)
    assert found.size == size
    assert (target / "site.yml").read_text() == "- hosts: all\n"
    assert (target / "roles/a/tasks/main.yml").read_bytes() == b"\xff" * 9999


def test_modes_keep_only_whether_a_file_can_be_executed(tmp_path: Path) -> None:
    target = tmp_path / "t"
    unpack(
        bundle(member("a", mode=0o6777), member("b", mode=0o644), member("d/e", mode=0o010)),
        target,
        max_bytes=100,
    )
    modes = {name: stat.S_IMODE((target / name).stat().st_mode) for name in ("a", "b", "d", "d/e")}
    assert modes == {"a": 0o700, "b": 0o600, "d": 0o700, "d/e": 0o700}


def test_links_inside_stay_links_and_hard_links_become_files(tmp_path: Path) -> None:
    target = tmp_path / "t"
    unpack(
        bundle(member("d/a"), link("d/l", "../d/a"), hard("h", "d/a"), link("up", "d")),
        target,
        max_bytes=100,
    )
    assert os.readlink(target / "d/l") == "../d/a"
    assert (target / "h").read_bytes() == b"x"
    assert (target / "h").stat().st_nlink == 1


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([member("/etc/x")], "leads out"),
        ([member("a/../../x")], "leads out"),
        ([link("l", "/etc/passwd")], "absolute link"),
        ([link("l", "../x")], "leads out"),
        ([member("a/b/f"), link("a/b/root", "../.."), link("x", "a/b/root/../..")], "leads out"),
        ([link("l", "."), member("l/x")], "below a link"),
        ([hard("h", "../../etc/passwd")], "leads out"),
        ([link("l", "nowhere"), hard("h", "l")], "no file of the bundle"),
        ([member("d", type=tarfile.CHRTYPE)], "neither file"),
        ([member("d", type=tarfile.FIFOTYPE)], "neither file"),
        ([member("a"), member("a")], "twice"),
        ([member("a"), member("a/b")], "no directory"),
        ([link("a", "b"), member("a")], "twice"),
    ],
)
def test_what_could_do_harm_is_refused_by_name(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], words: str
) -> None:
    with pytest.raises(UnsafeBundle, match=words):
        unpack(bundle(*members), tmp_path / "t", max_bytes=1000)
    assert not (tmp_path / "x").exists()


def test_a_bomb_ends_at_the_bounds(tmp_path: Path) -> None:
    _, packed, _ = pack({"zeros": b"\0" * 5_000_000})
    assert len(packed) < 5000
    with pytest.raises(UnsafeBundle, match="larger than 1000000 bytes"):
        unpack([packed], tmp_path / "t", max_bytes=1_000_000)
    with pytest.raises(UnsafeBundle, match="or 2 members"):
        unpack(
            bundle(*(member(str(n)) for n in range(3))),
            tmp_path / "u",
            max_bytes=1_000_000,
            max_members=2,
        )


@pytest.mark.parametrize("cut", [1, 40])
def test_a_damaged_bundle_is_refused(tmp_path: Path, cut: int) -> None:
    _, packed, _ = pack({"a": os.urandom(5000)})
    with pytest.raises(UnsafeBundle, match="damaged"):
        unpack([packed[:-cut]], tmp_path / "t", max_bytes=10**6)


def test_garbage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeBundle, match="damaged"):
        unpack([b"garbage" * 100], tmp_path / "t", max_bytes=10**6)


def test_a_copy_shares_nothing_with_its_source(tmp_path: Path) -> None:
    source, copy = tmp_path / "s", tmp_path / "c"
    (source / "d").mkdir(parents=True)
    (source / "d/script").write_bytes(b"#!" * 100_000)
    (source / "d/script").chmod(0o755)
    (source / "empty").touch()
    (source / "l").symlink_to("d/script")
    assert copy_tree(source, copy) == 200_000
    (copy / "d/script").write_bytes(b"changed")
    assert (source / "d/script").stat().st_size == 200_000
    assert stat.S_IMODE((copy / "d/script").stat().st_mode) == 0o700
    assert stat.S_IMODE((copy / "empty").stat().st_mode) == 0o600
    assert os.readlink(copy / "l") == "d/script"
