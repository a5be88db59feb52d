"""`dispatcher explain`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from dispatcher.domain.outcome import Outcome
from tests.acting_node import ActingNode
from tests.command_line import dispatcher


def test_a_job_is_explained_while_it_waits_while_it_runs_and_when_it_has_ended(
    server: dict[str, str], node: ActingNode, project: Path
) -> None:
    run = ("run", "site.yml", "-i", "h,", "--host-lock", "exclusive", "--detach")
    first, second = (int(dispatcher(*run, cwd=project, **server).stdout) for _ in range(2))
    node.claim(first)

    waits = dispatcher("explain", str(second), cwd=project, **server).stdout.splitlines()
    assert waits[:3] == [
        f"job {second} is pending:",
        f"  1. Waits for the locks on h:22: held by job {first}. [host_lock]",
        "position: 1",
    ]
    assert re.fullmatch(r"expected start: \d{4}-\d\d-\d\d [\d:]{8} UTC, in \d+ s", waits[3])

    runs = dispatcher("explain", str(first), cwd=project, **server).stdout
    assert runs == f"job {first} is running. Runs on node n1.\n"

    node.finish(first, Outcome.FAILED_HOSTS, "1 of 1 hosts failed.")
    ended = dispatcher("explain", str(first), cwd=project, **server).stdout
    assert ended == f"job {first} is failed. 1 of 1 hosts failed.\n"
    raw = json.loads(dispatcher("explain", str(second), "--json", cwd=project, **server).stdout)
    assert (raw["id"], raw["blockers"]) == (second, [])

    missing = dispatcher("explain", "99", cwd=project, **server)
    assert (missing.returncode, "Not found" in missing.stderr) == (2, True)
