"""The git binary, told so that it can neither ask, nor run a hook, nor leave its protocols.

One bare clone for each project and URL is kept on the node; every update has a worktree of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from dispatcher.domain.project import PROTOCOLS
from dispatcher.errors import DispatcherError

_HEX: Final = re.compile(r"[0-9a-f]{7,40}")
_REFS: Final = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
#: Lines of output that an error repeats, and the characters of them.
_ERROR_LINES, _ERROR_CHARACTERS = 3, 500
_NOISE: Final = re.compile(r"^(hint:|warning:|Cloning into|$)")


class GitError(DispatcherError):
    """What git could not do. Names the URL, branch or path."""


class Shell:
    """Runs programs without a terminal and without input; what they say is passed on.

    Args:
        say: takes each line of output.
    """

    def __init__(self, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
        self.environment = dict(environment)
        self.say = say

    def run(self, command: Sequence[str], *, cwd: Path | None = None, show: bool = True) -> str:
        """Run to the end; the output.

        Raises:
            GitError: it ended with another code than 0; with its last words.
        """
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # without a controlling terminal nothing can ask on /dev/tty
            start_new_session=True,
        )
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip("\r\n"))
            if show:
                self.say(lines[-1])
        if process.wait() != 0:
            words = [line for line in lines if not _NOISE.match(line)][-_ERROR_LINES:]
            raise GitError(
                " ".join(words)[:_ERROR_CHARACTERS] or f"ended with {process.returncode}"
            )
        return "\n".join(lines)


def environment(
    base: Mapping[str, str],
    private: Path,
    *,
    key_file: str = "",
    config: str = "",
    known_hosts: Path,
    local: bool,
) -> dict[str, str]:
    """The environment of git, and of what calls git.

    Args:
        private: holds the configuration that takes the place of the account's and the machine's.
        key_file: private SSH key; empty: none.
        config: further lines of configuration.
        local: the project itself is on this node. Else nothing that it names may be: neither a
            submodule nor a role, which could be another tenant's clone.
    """
    file = private / "gitconfig"
    # a repository of another account is as good as its bundle: nothing of it is executed
    file.write_text(f"[safe]\n\tdirectory = *\n{config}")
    ssh = ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new"]
    ssh += ["-o", f"UserKnownHostsFile={known_hosts}", "-o", "ConnectTimeout=30"]
    if key_file:
        ssh += ["-i", key_file, "-o", "IdentitiesOnly=yes"]
    return {
        **base,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(file),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "SSH_ASKPASS": "/bin/false",
        "SSH_ASKPASS_REQUIRE": "force",
        "GIT_SSH_COMMAND": " ".join(_quoted(word) for word in ssh),
        # wins over protocol.*.allow of every configuration
        "GIT_ALLOW_PROTOCOL": ":".join(p for p in PROTOCOLS if local or p != "file"),
        "GIT_LFS_SKIP_SMUDGE": "1",
    }


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


_SAFE: Final = (
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.fsmonitor=false",
    "-c", "http.lowSpeedLimit=1000",
    "-c", "http.lowSpeedTime=60",
    "-c", "gc.auto=0",
    "-c", "advice.detachedHead=false",
)  # fmt: skip


def is_local(url: str) -> bool:
    """Whether a URL names a place on the node itself."""
    return url.startswith("/") or urlsplit(url).scheme == "file"


class Repository:
    """The node's clone of one project; held exclusively while it is used."""

    def __init__(self, path: Path, url: str, shell: Shell) -> None:
        self._path, self._url, self._shell = path, url, shell

    @classmethod
    @contextmanager
    def opened(cls, clones: Path, project_id: int, url: str, shell: Shell) -> Iterator[Repository]:
        """Open the clone, an empty one at first; clones of URLs that the project had are removed."""
        clones.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(clones / f"{project_id}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            name = f"{project_id}-{hashlib.sha256(url.encode()).hexdigest()[:12]}.git"
            for other in clones.glob(f"{project_id}-*.git"):
                if other.name != name:
                    shutil.rmtree(other, ignore_errors=True)
            repository = cls(clones / name, url, shell)
            repository._prepare()
            yield repository
        finally:
            os.close(lock)

    def _prepare(self) -> None:
        try:
            self._git("rev-parse", "--git-dir", show=False)
        except GitError:
            shutil.rmtree(self._path, ignore_errors=True)
            self._shell.run(["git", *_SAFE, "init", "--quiet", "--bare", str(self._path)])
        self._git("worktree", "prune", "--expire=now", show=False)

    def _git(self, *words: str, show: bool = True) -> str:
        return self._shell.run(["git", *_SAFE, f"--git-dir={self._path}", *words], show=show)

    def pin(self, branch: str) -> str:
        """The commit that a branch, tag or commit stands for at this moment, fetched.

        Args:
            branch: empty: the remote's default branch.

        Raises:
            GitError: the URL cannot be reached, or has no such branch.
        """
        refs = self._remote_refs()
        wanted = (
            ("HEAD",)
            if not branch
            else (f"refs/heads/{branch}", f"refs/tags/{branch}^{{}}", f"refs/tags/{branch}", branch)
        )
        commit = next((refs[name] for name in wanted if name in refs), None)
        if commit is None and not branch:
            raise GitError(f"{self._url} has no default branch: it is empty, or names one")
        if commit is not None and self._has(commit):
            return commit
        self._fetch(*_REFS)
        if commit is None:
            commit = self._commit(branch)
        if commit is None:
            raise GitError(f"there is no branch, tag or commit {branch!r} in {self._url}")
        return commit

    def _remote_refs(self) -> dict[str, str]:
        self._shell.say(f"looking at {self._url}")
        try:
            listed = self._git("ls-remote", "--", self._url, show=False)
        except GitError as error:
            raise GitError(f"{self._url} cannot be read: {error}") from None
        pairs = (line.split("\t", 1) for line in listed.splitlines() if "\t" in line)
        return {name: commit for commit, name in pairs}

    def _fetch(self, *refs: str) -> None:
        self._shell.say(f"fetching {self._url}")
        try:
            self._git("fetch", "--quiet", "--force", "--no-progress", "--", self._url, *refs)
        except GitError as error:
            raise GitError(f"{self._url} cannot be fetched: {error}") from None

    def _has(self, commit: str) -> bool:
        try:
            self._git("cat-file", "-e", f"{commit}^{{commit}}", show=False)
        except GitError:
            return False
        return True

    def _commit(self, word: str) -> str | None:
        if not _HEX.fullmatch(word):
            return None
        if not self._has(word) and len(word) == 40:
            try:
                self._fetch(word)
            except GitError:
                return None
        try:
            found = self._git("rev-parse", "--verify", f"{word}^{{commit}}", show=False)
        except GitError:
            return None
        return found.strip()

    def check_out(self, commit: str, tree: Path) -> None:
        """A commit's files with its submodules, and nothing of git beside them.

        Raises:
            GitError: a submodule cannot be fetched, or the disk is full.
        """
        self._shell.say(f"checking out {commit}")
        self._git("worktree", "add", "--quiet", "--force", "--detach", str(tree), commit)
        if (tree / ".gitmodules").exists():
            self._shell.say("fetching submodules")
            command = ["git", *_SAFE, "submodule", "--quiet"]
            try:
                self._shell.run([*command, "update", "--init", "--recursive"], cwd=tree)
            except GitError as error:
                raise GitError(f"submodules of {self._url}: {error}") from None
        for directory, names, files in os.walk(tree):
            if ".git" in files:
                os.unlink(os.path.join(directory, ".git"))
            if ".git" in names:
                names.remove(".git")
                shutil.rmtree(os.path.join(directory, ".git"))
        self._git("worktree", "prune", "--expire=now", show=False)
