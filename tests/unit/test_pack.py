"""Packing a playbook's directory: equal bytes for equal content, and nothing that leaves it."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.client.ignore import IgnoreRules
from dispatcher.client.pack import PackError, pack


def write(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def unpacked(directory: Path) -> dict[str, tarfile.TarInfo]:
    with pack(directory) as bundle:
        packed = b"".join(bundle.chunks())
        assert hashlib.sha256(packed).hexdigest() == bundle.digest
        assert len(packed) == bundle.size
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        return {member.name: member for member in tar}


def digest(directory: Path) -> str:
    with pack(directory) as bundle:
        return bundle.digest


_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20)
_TREES = st.dictionaries(
    _NAMES.map(lambda name: f"d/{name}x"), st.binary(max_size=300), min_size=1, max_size=6
)


@given(files=_TREES, mtime=st.integers(0, 2**31), mode=st.sampled_from([0o600, 0o644, 0o664]))
@settings(max_examples=25, deadline=None)
def test_equal_content_has_an_equal_digest_whatever_times_modes_and_order_say(
    files: dict[str, bytes], mtime: int, mode: int
) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        write(Path(one), files)
        write(Path(two), dict(reversed(files.items())))
        for path in Path(two).rglob("*"):
            if path.is_file():
                path.chmod(mode)
            os.utime(path, (mtime, mtime))
        assert digest(Path(one)) == digest(Path(two))


@given(files=_TREES, extra=st.binary(min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_another_content_or_another_name_has_another_digest(
    files: dict[str, bytes], extra: bytes
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = write(Path(directory), files)
        before = digest(root)
        changed = root / min(files)
        changed.write_bytes(changed.read_bytes() + extra)
        after = digest(root)
        changed.rename(changed.with_name(changed.name + "y"))
        assert len({before, after, digest(root)}) == 3


def test_members_are_sorted_and_carry_no_trace_of_this_machine(tmp_path: Path) -> None:
    write(tmp_path, {"b/run.sh": b"#!/bin/sh\n", "a.yml": b"[]", "b.yml": b""})
    (tmp_path / "b/run.sh").chmod(0o4755)
    (tmp_path / "empty").mkdir()
    members = unpacked(tmp_path)
    assert list(members) == ["a.yml", "b", "b.yml", "b/run.sh", "empty"]
    assert {m.mtime for m in members.values()} == {0}
    assert {(m.uid, m.gid, m.uname, m.gname) for m in members.values()} == {(0, 0, "", "")}
    assert [m.mode for m in members.values()] == [0o644, 0o755, 0o644, 0o755, 0o755]


def test_repositories_caches_retry_files_and_environments_stay_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".git/config": b"x",
            "roles/r/.git": b"gitdir: elsewhere",
            "library/__pycache__/m.pyc": b"x",
            "site.retry": b"x",
            ".venv/bin/python": b"x",
            "site.yml": b"x",
            "roles/r/tasks/main.yml": b"x",
        },
    )
    files = [name for name, member in unpacked(tmp_path).items() if member.isfile()]
    assert files == ["roles/r/tasks/main.yml", "site.yml"]


def test_the_ignore_file_adds_patterns_and_takes_built_in_ones_back(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".dispatcherignore": b"# big\n/images/\n*.iso\n!keep.iso\n!old.retry\n\ndocs/**/*.pdf\n",
            "images/a": b"x",
            "roles/images/a": b"x",
            "x/disk.iso": b"x",
            "x/keep.iso": b"x",
            "old.retry": b"x",
            "docs/a/b/c.pdf": b"x",
            "docs/c.pdf": b"x",
            "docs/c.md": b"x",
        },
    )
    files = {name for name, member in unpacked(tmp_path).items() if member.isfile()}
    assert files == {
        ".dispatcherignore",
        "roles/images/a",
        "x/keep.iso",
        "old.retry",
        "docs/c.md",
    }


@pytest.mark.parametrize(
    ("pattern", "path", "is_directory", "ignored"),
    [
        ("build", "a/build", False, True),
        ("/build", "a/build", False, False),
        ("build/", "build", False, False),
        ("build/", "build", True, True),
        ("a/*.log", "a/b/c.log", False, False),
        ("a/**", "a/b/c.log", False, True),
        ("**/c.log", "c.log", False, True),
        ("[!a]x", "bx", False, True),
        ("[!a]x", "ax", False, False),
        ("a?c", "a/c", False, False),
        ("\\#x", "#x", False, True),
        ("*.tmp ", "x.tmp", False, True),
        ("[", "[", False, True),
    ],
)
def test_patterns_follow_the_rules_of_gitignore(
    pattern: str, path: str, is_directory: bool, ignored: bool
) -> None:
    assert IgnoreRules([pattern]).ignores(path, is_directory=is_directory) is ignored


def test_links_inside_the_tree_are_kept_as_links(tmp_path: Path) -> None:
    write(tmp_path, {"roles/common/tasks/main.yml": b"x"})
    (tmp_path / "roles/shared").symlink_to("common")
    (tmp_path / "dangling").symlink_to("not/here/yet")
    members = unpacked(tmp_path)
    assert members["roles/shared"].issym()
    assert members["roles/shared"].linkname == "common"
    assert members["dangling"].linkname == "not/here/yet"
    assert "roles/shared/tasks" not in members


@pytest.mark.parametrize("target", ["../outside", "/etc/hostname", "up/../../outside", "door/x"])
def test_a_link_that_leaves_the_tree_is_refused_by_name(tmp_path: Path, target: str) -> None:
    root = write(tmp_path / "tree", {"site.yml": b"x", "up/x": b"x"})
    write(tmp_path, {"outside": b"secret"})
    if target == "door/x":
        (root / "door").symlink_to("..")
    (root / "leak").symlink_to(target)
    with pytest.raises(PackError, match=r"/(leak|door): is a link to"):
        pack(root)


def test_a_pipe_or_socket_is_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "queue")
    with pytest.raises(PackError, match="queue: is neither a file, a directory nor a link"):
        pack(tmp_path)


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    with pytest.raises(PackError, match="not UTF-8"):
        pack(tmp_path)


def test_an_oversized_directory_is_refused_and_the_largest_part_named(tmp_path: Path) -> None:
    write(tmp_path, {"site.yml": b"x" * 10, "images/disk": b"x" * 1000})
    with pytest.raises(PackError, match=r"1,010 bytes.*in images \(1,000\).*\.dispatcherignore"):
        pack(tmp_path, unpacked_limit=1000)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="nowhere: is not a directory"):
        pack(tmp_path / "nowhere")
