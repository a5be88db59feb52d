"""Real git repositories for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_WHO = {
    "GIT_AUTHOR_NAME": "t",
    "GIT_AUTHOR_EMAIL": "t@example",
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@example",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


class GitRepository:
    """A repository with a work tree."""

    def __init__(self, path: Path, files: Mapping[str, str]) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit(files)

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.path,
            env=os.environ | _WHO,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def write(self, files: Mapping[str, str], *, executable: bool = False) -> None:
        for name, content in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            path.chmod(0o755 if executable else 0o644)

    def commit(self, files: Mapping[str, str], *, executable: bool = False) -> str:
        """Commit files; the revision."""
        self.write(files, executable=executable)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD")
