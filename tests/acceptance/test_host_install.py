"""What `make run` does, with fewer hosts, on a stack of its own that has too little room."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dispatcher.embedded.state import running_stack
from tests.command_line import ROOT, environment

RUN = ROOT / "examples" / "host_install" / "run.py"


def install(data_dir: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), *options],
        cwd="/",
        env=environment({"DISPATCHER_DATA_DIR": str(data_dir), "DISPATCHER_API_PORT": "0"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )


# two rounds of playbooks and a stack of their own, on a machine that may be busy
@pytest.mark.timeout(400)
def test_three_installs_with_room_for_one_wait_visibly_and_change_nothing_twice(
    data_dir: Path,
) -> None:
    before = set(os.listdir("/tmp"))
    answer = install(data_dir, "--hosts", "3", "--capacity", "2")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    first, second = answer.stdout.split("once more: nothing may change")
    for part, changed in ((first, "4"), (second, "0")):
        rows = re.findall(
            r"│ (host\d) +│ \d+ +│ successful │.*?│ (\d+) +│ \d+ +│ [\d.]+ +│ (\d+)", part
        )
        assert [row[0] for row in rows] == ["host1", "host2", "host3"]
        assert {row[1] for row in rows} == {changed}
        assert {row[2] for row in rows} == {"0"}
        assert "3 jobs at once, 3 successful" in part
        assert "0 answered other than 200" in part
    assert re.search(r"host[23]: pending: Needs 2 of capacity", first)
    assert answer.stdout.strip().endswith("all is well")
    # it started the stack, so it stopped it, and the hosts and their directories are gone
    assert running_stack(data_dir) is None
    assert not [
        name for name in set(os.listdir("/tmp")) - before if name.startswith("host-install-")
    ]
