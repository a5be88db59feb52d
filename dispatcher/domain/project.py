"""What a project may be fetched from: rules for its URL, path and branch."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from dispatcher.domain.launch_checks import LONGEST_PATH, line_problem

#: Protocols that git may use, for the project and for its submodules; never ``ext``.
PROTOCOLS: Final = ("https", "http", "ssh", "file")
_WORD: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_SCP: Final = re.compile(rf"(?:{_WORD}@)?{_WORD}:(?!//|:).+")


def url_problem(url: object) -> str | None:
    """A git URL without credentials, or an absolute path on the node."""
    problem = line_problem(url, 2 * LONGEST_PATH)
    if problem is not None:
        return problem
    text = str(url)
    if not text:
        return "a URL is required"
    if text.startswith("-") or text != text.strip():
        return "must not start with '-', nor begin or end with a space"
    if text.startswith("/"):
        return None
    if "://" not in text:
        is_scp = _SCP.fullmatch(text) is not None
        return None if is_scp else "a URL, user@host:path or an absolute path is required"
    try:
        parts = urlsplit(text)
    except ValueError as error:
        return f"not a URL: {error}"
    if parts.scheme not in PROTOCOLS:
        return f"the protocol must be one of {', '.join(PROTOCOLS)}"
    if parts.password is not None or (parts.username and parts.scheme != "ssh"):
        return "must hold no user or password: a URL is shown to everybody who sees the project"
    if parts.scheme != "file" and not parts.hostname:
        return "names no host"
    if (parts.hostname or "").startswith("-") or (parts.username or "").startswith("-"):
        return "must not name a host or user that starts with '-'"
    return None


def local_path_problem(path: object) -> str | None:
    """An absolute path of a directory on every node that may update the project."""
    problem = line_problem(path, LONGEST_PATH)
    if problem is not None:
        return problem
    text = str(path)
    if not text.startswith("/") or ".." in text.split("/"):
        return "an absolute path without '..' is required"
    return None
