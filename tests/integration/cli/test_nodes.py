"""`dispatcher node enable|disable|drain`."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy import Engine

from tests.command_line import dispatcher
from tests.factories import make_job, make_node


def test_a_node_is_disabled_drained_and_enabled(
    server: dict[str, str], engine: Engine, tmp_path: Path
) -> None:
    with engine.begin() as connection:
        make_node(connection, "n1")
        job = make_job(connection, status="running", name="install")

    def node(*words: str) -> tuple[int, str, str]:
        done = dispatcher("node", *words, cwd=tmp_path, **server)
        return done.returncode, done.stdout, done.stderr.removeprefix("dispatcher: ")

    assert node("disable", "n1") == (0, "", "node n1: disabled\n")
    code, out, said = node("drain", "n1")
    assert (code, said) == (0, "node n1: takes no more jobs; 1 still there\n")
    heading, row = (line.split() for line in out.splitlines())
    assert heading == ["JOB", "NAME", "STATUS", "SINCE", "EXPECTED", "END"]
    assert row[:3] == [str(job), "install", "running"]
    assert row[-1] == "unknown"
    assert json.loads(node("drain", "n1", "--json")[1])["jobs"][0]["id"] == job
    assert node("enable", "n1") == (0, "", "node n1: enabled\n")
    (shown,) = json.loads(node("list", "--json")[1])
    assert (shown["enabled"], shown["draining"], shown["takes_jobs"]) == (True, False, True)

    code, _, said = node("drain", "n2")
    assert (code, said) == (2, "there is no node n2\n")


def test_a_drain_of_an_idle_node_is_done_at_once(
    server: dict[str, str], engine: Engine, tmp_path: Path
) -> None:
    with engine.begin() as connection:
        make_node(connection, "n1")
    done = dispatcher("node", "drain", "n1", "--wait", cwd=tmp_path, **server)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "dispatcher: node n1: drained")
