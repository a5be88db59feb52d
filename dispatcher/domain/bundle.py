"""What a content bundle may hold: files, directories and links, none of which leaves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dispatcher.domain.tar_stream import Member
from dispatcher.domain.text import has_unstorable, shown

MOST_MEMBERS: Final = 200_000
#: Largest window of a zstd frame, in bytes: what a decompressor has to keep in memory.
MOST_WINDOW: Final = 32 << 20
LONGEST_NAME: Final = 1024
#: Bytes of one part of a path; what file systems take.
LONGEST_PART: Final = 255
#: Links followed for one path; what Linux follows.
_MOST_FOLLOWED: Final = 40
#: Steps of all walks through links together.
_MOST_STEPS: Final = 1_000_000
#: Bounds of the list of paths that is kept for checks at launch; a larger one is not kept.
MOST_PATHS: Final = 20_000
MOST_PATH_CHARACTERS: Final = 1_000_000

_SET_ID: Final = 0o6000

Path = tuple[str, ...]


class BundleError(ValueError):
    """A bundle that must not be unpacked."""


@dataclass(frozen=True)
class Contents:
    """What a checked bundle holds.

    Attributes:
        unpacked_size: bytes of its files.
        paths: as :func:`candidates` looks them up; None when there are too many to keep.
    """

    unpacked_size: int
    paths: tuple[str, ...] | None


class BundleCheck:
    """Checks one bundle, member by member, then as a whole.

    Args:
        unpacked_limit: most bytes of all files.
    """

    def __init__(self, *, unpacked_limit: int) -> None:
        self._limit = unpacked_limit
        self._size = 0
        self._kinds: dict[Path, str] = {}
        self._targets: dict[Path, str] = {}
        self._steps = 0

    def add(self, member: Member) -> None:
        """Check what can be seen of a member alone.

        Raises:
            BundleError: it is not allowed.
        """
        path = _path(member.name)
        if member.kind not in ("file", "directory", "link"):
            raise BundleError(
                f"{shown(member.name)} is a {member.kind}: only files, directories and symbolic"
                " links are allowed"
            )
        if member.mode & _SET_ID:
            raise BundleError(f"{shown(member.name)} has a set-user-id or set-group-id bit")
        self._size += member.size
        if self._size > self._limit:
            raise BundleError(f"its files have more than {self._limit} bytes")
        if not path:
            if member.kind != "directory":
                raise BundleError(f"{shown(member.name)} is not the name of a file")
            return
        if path in self._kinds and (self._kinds[path], member.kind) != ("directory", "directory"):
            raise BundleError(f"{shown(member.name)} is in it twice")
        if len(self._kinds) >= MOST_MEMBERS:
            raise BundleError(f"more than {MOST_MEMBERS} members")
        self._kinds[path] = member.kind
        if member.kind == "link":
            self._targets[path] = member.target

    def finish(self) -> Contents:
        """Check the members together.

        Raises:
            BundleError: one lies below a file or a link, or a link leaves the bundle.
        """
        directories = set(self._directories())
        for path in self._targets:
            self._follow(path)
        names = [
            "/".join(path) + ("" if kind == "file" else "/") for path, kind in self._kinds.items()
        ]
        names += ["/".join(path) + "/" for path in directories if path not in self._kinds]
        # a link may be anything: it is known as a file, as a directory, and as the way to others
        names += ["/".join(path) for path in self._targets]
        names += ["/".join(path) + "//" for path in self._targets]
        few = len(names) <= MOST_PATHS and sum(map(len, names)) <= MOST_PATH_CHARACTERS
        return Contents(self._size, tuple(names) if few else None)

    def _directories(self) -> Iterator[Path]:
        """Every directory that a member lies in."""
        seen: set[Path] = set()
        for path in self._kinds:
            for length in range(len(path) - 1, 0, -1):
                parent = path[:length]
                if parent in seen:
                    break
                kind = self._kinds.get(parent, "directory")
                if kind != "directory":
                    raise BundleError(f"{shown('/'.join(path))} lies below a {kind}")
                seen.add(parent)
                yield parent

    def _follow(self, link: Path) -> None:
        """Walk where a link leads, through other links too, and see that it stays inside."""
        here, followed = list(link[:-1]), 1
        ahead = _parts_of_target(link, self._targets[link])
        while ahead:
            part = ahead.pop()
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise BundleError("its links take too many steps to follow")
            if part == "..":
                if not here:
                    raise BundleError(
                        f"{shown('/'.join(link))} is a link to {shown(self._targets[link])},"
                        " which leaves the bundle"
                    )
                here.pop()
                continue
            here.append(part)
            target = self._targets.get(tuple(here))
            if target is not None:
                followed += 1
                if followed > _MOST_FOLLOWED:
                    raise BundleError(f"{shown('/'.join(link))} is a link in a loop of links")
                ahead += _parts_of_target(tuple(here), target)
                here.pop()


def candidates(path: str, *, directory: bool = False) -> list[str]:
    """What to look for in :attr:`Contents.paths` to know whether a path may be in the bundle.

    Args:
        path: a checked path, without ``.`` and ``..``.
        directory: whether it may be a directory.
    """
    parts = path.split("/")
    below_links = ["/".join(parts[:length]) + "//" for length in range(1, len(parts))]
    return [path, *([path + "/"] if directory else []), *below_links]


def _path(name: str) -> Path:
    if has_unstorable(name):
        raise BundleError(f"{shown(name)}: a name must be UTF-8, without NUL")
    if len(name) > LONGEST_NAME:
        raise BundleError(f"{shown(name)}: longer than {LONGEST_NAME} characters")
    if name.startswith("/"):
        raise BundleError(f"{shown(name)} is an absolute path")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise BundleError(f"{shown(name)} has '..' in it")
    if any(len(part.encode()) > LONGEST_PART for part in parts):
        raise BundleError(f"{shown(name)}: a part of it is longer than {LONGEST_PART} bytes")
    return parts


def _parts_of_target(link: Path, target: str) -> list[str]:
    """The parts of a link's target, the first one last."""
    if has_unstorable(target) or len(target) > LONGEST_NAME or not target:
        raise BundleError(f"{shown('/'.join(link))} is a link without a possible target")
    if target.startswith("/"):
        raise BundleError(f"{shown('/'.join(link))} is a link to the absolute path {shown(target)}")
    return [part for part in reversed(target.split("/")) if part not in ("", ".")]
