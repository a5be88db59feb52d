"""A project update: the program that a supervisor runs in place of ansible-playbook.

``python -m workers.project_update <run directory>``. Leaves ``update/bundle`` and
``update/found.json`` there; knows no database. What it prints becomes the job's output.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from dispatcher.client.pack import PackError, pack
from dispatcher.domain.project import local_path_problem, url_problem
from dispatcher.domain.prompts import branch_problem
from workers import credentials, git, requirements
from workers.run_dir import RunDir
from workers.update_files import UpdateFiles


def update(run_dir: RunDir) -> dict[str, Any]:
    """Fetch, install, pack; what was found.

    Raises:
        GitError, PackError, CredentialUnusable: see there.
        OSError: the disk refuses.
    """
    spec = run_dir.read_job()
    project = spec.project
    data_dir = run_dir.path.parent.parent
    tree = run_dir.private / "tree"
    environment = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    key_file, config = credentials.for_git(
        run_dir.private, spec.credentials, project["scm_url"], environment
    )
    if key_file:
        environment.pop("SSH_AUTH_SOCK", None)
    shell = git.Shell(
        git.environment(
            environment,
            run_dir.private,
            key_file=key_file or spec.scm_key_file,
            config=config,
            known_hosts=data_dir / "known_hosts",
            local=project["scm_type"] == "local" or git.is_local(project["scm_url"]),
        ),
        lambda line: print(line, flush=True),
    )
    _check(project)
    if project["scm_type"] == "git":
        url = project["scm_url"]
        clones = data_dir / "projects"
        with git.Repository.opened(clones, int(project["id"]), url, shell) as repository:
            revision = repository.pin(project["scm_branch"])
            repository.check_out(revision, tree)
    else:
        _copy_local(Path(project["local_path"]), tree)
        revision = ""
    requirements.install(tree, shell)
    with pack(tree, unpacked_limit=spec.max_unpacked) as bundle:
        UpdateFiles(run_dir).write_bundle(bundle.chunks())
        print(f"{len(bundle.names)} files, {bundle.size} bytes", flush=True)
        return {"revision": revision or bundle.digest[:40], "bundle_digest": bundle.digest}


def _check(project: Any) -> None:
    """What the API refused is refused here again."""
    wrong = branch_problem(project["scm_branch"])
    if project["scm_type"] == "git":
        wrong = wrong or url_problem(project["scm_url"])
    else:
        wrong = wrong or local_path_problem(project["local_path"])
    if wrong:
        raise git.GitError(f"the project cannot be fetched: {wrong}")


def _copy_local(path: Path, tree: Path) -> None:
    if not path.is_dir():
        raise git.GitError(f"{path} is not a directory on this node")
    try:
        shutil.copytree(path, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    except shutil.Error as error:
        raise git.GitError(f"{path}: {error.args[0][0][2]}") from None


def main(path: Path) -> int:
    """Update; the exit code."""
    run_dir = RunDir(path)
    try:
        found = update(run_dir)
    except credentials.CredentialUnusable as error:
        print(f"ERROR: {error}", flush=True)
        found = {"error": str(error), "stage": "credentials"}
    except (git.GitError, PackError, OSError) as error:
        words = str(error).replace(f"{run_dir.private / 'tree'}/", "")
        print(f"ERROR: {words}", flush=True)
        found = {"error": words, "stage": "project"}
    UpdateFiles(run_dir).write_found(json.dumps(found))
    return 1 if "error" in found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
