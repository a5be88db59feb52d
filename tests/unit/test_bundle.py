"""What a bundle may hold, and the archive reader below it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.domain.bundle import BundleCheck, BundleError, Contents, candidates
from dispatcher.domain.tar_stream import BLOCK, Member, TarError, TarStream


def check(*members: Member, unpacked_limit: int = 1000) -> Contents:
    bundle = BundleCheck(unpacked_limit=unpacked_limit)
    for member in members:
        bundle.add(member)
    return bundle.finish()


def file(name: str, size: int = 1, mode: int = 0o644) -> Member:
    return Member(name, "file", size, mode)


def link(name: str, target: str) -> Member:
    return Member(name, "link", target=target)


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (file("/etc/passwd"), "absolute"),
        (file("../x"), "'..'"),
        (file("a/../../x"), "'..'"),
        (file("a/.."), "'..'"),
        (file("./"), "not the name of a file"),
        (file(""), "not the name of a file"),
        (file("a\x00b"), "UTF-8"),
        (file("a\udcffb"), "UTF-8"),
        (file("x" * 256), "longer than 255 bytes"),
        (file("ü" * 128), "longer than 255 bytes"),
        (file("d/" * 600 + "x"), "longer than 1024"),
        (file("a", mode=0o4755), "set-user-id"),
        (file("a", mode=0o2755), "set-user-id"),
        (file("a", size=1001), "more than 1000 bytes"),
        (Member("a", "hard link", target="b"), "hard link"),
        (Member("a", "device"), "device"),
        (Member("a", "pipe"), "pipe"),
        (Member("a", "unknown"), "unknown"),
        (link("a", "/etc"), "absolute"),
        (link("a", ".."), "leaves"),
        (link("a/b", "../../x"), "leaves"),
        (link("a", "b/../../x"), "leaves"),
        (link("a", ""), "without a possible target"),
        (link("a", "b\x00"), "without a possible target"),
        (link("a", "a"), "loop"),
    ],
)
def test_a_member_that_could_do_harm_is_refused(member: Member, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        check(member)


def test_ordinary_trees_pass_and_are_known_by_path() -> None:
    contents = check(
        Member(".", "directory"),
        file("./site.yml", 10),
        Member("roles/", "directory"),
        Member("roles", "directory"),
        file("roles/a/tasks/main.yml", 5, 0o755),
        link("current", "roles/a"),
        link("roles/b", "a/../a"),
        link("dangling", "not/there"),
        link("up/down", "../site.yml"),
    )
    assert contents.unpacked_size == 15
    assert contents.paths is not None
    for path, directory in [
        ("site.yml", False),
        ("roles/a/tasks/main.yml", False),
        ("roles", True),
        ("roles/a", True),
        ("current", False),
        ("current", True),
        ("current/tasks/main.yml", False),
        ("up/down", False),
    ]:
        assert set(candidates(path, directory=directory)) & set(contents.paths), path
    for path, directory in [("other.yml", False), ("roles", False), ("roles/c", True)]:
        assert not set(candidates(path, directory=directory)) & set(contents.paths), path


@pytest.mark.parametrize(
    "members",
    [
        (file("a"), file("a")),
        (file("a"), file("./a")),
        (file("a"), Member("a", "directory")),
        (link("a", "b"), file("a")),
        (link("a", "b"), link("a", "b")),
    ],
)
def test_a_name_is_in_it_once(members: tuple[Member, ...]) -> None:
    with pytest.raises(BundleError, match="twice"):
        check(*members)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("above", [file("a"), link("a", "b")])
def test_nothing_lies_below_a_file_or_a_link(above: Member, order: int) -> None:
    members = [above, file("a/b/c")]
    with pytest.raises(BundleError, match="lies below"):
        check(*members[::order])


def test_a_link_through_another_link_is_followed() -> None:
    """Word by word ``x/y/up/../secret`` is inside; followed, it is outside."""
    check(link("x/y/up", "../.."), link("inside", "x/y/up/site.yml"))
    with pytest.raises(BundleError, match="leaves"):
        check(link("x/y/up", "../.."), link("out", "x/y/up/../secret"))


def test_links_that_lead_to_each_other_are_refused() -> None:
    with pytest.raises(BundleError, match="loop"):
        check(link("a", "b/x"), link("b", "a"))


def test_links_that_take_very_long_to_follow_are_refused() -> None:
    chain = [link(f"l{n}", "/".join(["d", ".."] * 200) + f"/l{n + 1}") for n in range(5000)]
    with pytest.raises(BundleError, match=r"too many steps|loop"):
        check(*chain)


def test_too_many_paths_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.domain.bundle.MOST_PATHS", 2)
    assert check(file("a"), file("b")).paths is not None
    assert check(file("a"), file("b"), file("c")).paths is None


def test_too_many_members_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.domain.bundle.MOST_MEMBERS", 2)
    with pytest.raises(BundleError, match="more than 2 members"):
        check(file("a"), file("b"), file("c"))


# -- the archive reader

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def archive(build: Callable[[tarfile.TarFile], None], form: int = tarfile.PAX_FORMAT) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=form) as tar:
        build(tar)
    return plain.getvalue()


def add(tar: tarfile.TarFile, name: str, content: bytes = b"", **facts: object) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for fact, value in facts.items():
        setattr(member, fact, value)
    tar.addfile(member, io.BytesIO(content))


def members(raw: bytes, piece: int = 10_000) -> list[Member]:
    stream = TarStream()
    found = [
        member
        for first in range(0, len(raw), piece)
        for member in stream.feed(raw[first : first + piece])
    ]
    stream.close()
    return found


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("piece", [1, 511, 512, 513, 10_000])
def test_members_are_those_that_were_put_in(form: int, piece: int) -> None:
    long = "roles/" + "a" * 90 + "/tasks/main.yml"

    def build(tar: tarfile.TarFile) -> None:
        add(tar, "site.yml", b"x" * 1000)
        add(tar, long, b"y" * 512)
        add(tar, "empty")
        add(tar, "dir", type=tarfile.DIRTYPE)
        add(tar, "here", type=tarfile.SYMTYPE, linkname="site.yml")
        add(tar, "run", b"#!", mode=0o755)
        add(tar, "hard", type=tarfile.LNKTYPE, linkname="site.yml")

    found = members(archive(build, form), piece)
    assert [(m.name.rstrip("/"), m.kind, m.size) for m in found] == [
        ("site.yml", "file", 1000),
        (long, "file", 512),
        ("empty", "file", 0),
        ("dir", "directory", 0),
        ("here", "link", 0),
        ("run", "file", 2),
        ("hard", "hard link", 0),
    ]
    assert found[4].target == "site.yml"
    assert found[5].mode & 0o111


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_and_foreign_names_are_read(form: int) -> None:
    name, target = "ü" * 150 + ".yml", "d/" * 80 + "x"
    raw = archive(lambda tar: add(tar, name, type=tarfile.SYMTYPE, linkname=target), form)
    assert [(m.name, m.target) for m in members(raw)] == [(name, target)]


def test_a_comment_for_all_members_is_passed_over() -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", pax_headers={"comment": "0123abcd"}) as tar:
        add(tar, "a", b"1")
    assert [m.name for m in members(plain.getvalue())] == ["a"]


@pytest.mark.parametrize("key", ["path", "linkpath", "size"])
def test_a_global_header_that_renames_is_refused(key: str) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", pax_headers={key: "1"}) as tar:
        add(tar, "a", b"1")
    with pytest.raises(TarError, match="global header"):
        members(plain.getvalue())


def test_sparse_files_are_refused() -> None:
    raw = archive(
        lambda tar: add(tar, "a", b"1", pax_headers={"GNU.sparse.major": "1"}), tarfile.PAX_FORMAT
    )
    with pytest.raises(TarError, match="sparse"):
        members(raw)
    raw = archive(lambda tar: add(tar, "a", type=tarfile.GNUTYPE_SPARSE))
    assert [m.kind for m in members(raw)] == ["unknown"]


def test_a_header_larger_than_any_name_is_refused_before_it_is_read() -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 40
    with pytest.raises(TarError, match="impossible size"):
        members(header.tobuf(tarfile.GNU_FORMAT))


@pytest.mark.parametrize("cut", [100, 512, 600, 1500])
def test_an_archive_that_is_cut_off_is_refused(cut: int) -> None:
    raw = archive(lambda tar: add(tar, "a", b"x" * 1000))
    with pytest.raises(TarError, match="cut off"):
        members(raw[:cut])


def test_whatever_follows_the_end_is_passed_over() -> None:
    raw = archive(lambda tar: add(tar, "a", b"x"))
    assert [m.name for m in members(raw + b"anything")] == ["a"]
    assert members(b"\0" * BLOCK) == []
    assert members(b"") == []


@settings(max_examples=60)
@given(st.binary(max_size=1200), st.integers(0, 1535), st.integers(1, 600))
def test_any_bytes_are_read_or_refused(noise: bytes, place: int, piece: int) -> None:
    raw = bytearray(
        archive(lambda tar: add(tar, "n" * 120, b"x" * 20, pax_headers={"comment": "c"}))
    )
    raw[place : place + len(noise)] = noise
    try:
        members(bytes(raw), piece)
    except TarError:
        pass


@settings(max_examples=60)
@given(st.lists(st.tuples(st.text(max_size=8), st.sampled_from(["file", "directory", "link"]),
                          st.text(alphabet="ab./", max_size=8)), max_size=6))  # fmt: skip
def test_any_members_pass_or_are_refused(found: list[tuple[str, str, str]]) -> None:
    try:
        check(*(Member(name, kind, target=target) for name, kind, target in found))
    except BundleError:
        pass
