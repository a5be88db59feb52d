"""``dispatcher simulate`` and ``dispatcher trace export`` as commands."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy import Engine, text

from dispatcher.settings import Settings
from schedulers.core.trace import write_line
from tests.command_line import dispatcher
from tests.factories import make_job, make_node

JOB = {"job": "site.yml", "at": 0, "duration": 60, "tenant": "Ops"}


def a_trace(path: Path, *jobs: dict[str, object]) -> Path:
    rows = [{"trace": 1}, {"node": "n1", "capacity": 4}, *jobs]
    path.write_text("".join(write_line(**row) for row in rows))
    return path


def test_a_simulation_shows_waits_and_what_more_nodes_would_change(tmp_path: Path) -> None:
    trace = a_trace(tmp_path / "t.jsonl", *[JOB] * 6)
    ran = dispatcher("simulate", str(trace), "--more-nodes", "1", "--json", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    now, more = json.loads(ran.stdout)["simulations"]
    assert (now["nodes"], now["jobs"], now["not_started"], now["utilization"]) == (1, 6, 0, 1)
    waits = now["tenants"]["Ops"]
    assert (waits["jobs"], waits["p95"], waits["max"]) == (6, 120, 120)
    assert 60 <= waits["p50"] <= 63  # counted in steps of 5 %
    assert now["groups"]["default"] == now["tenants"]["Ops"]
    assert (more["nodes"], more["tenants"]["Ops"]["max"]) == (2, 60)


def test_a_simulation_is_printed_as_tables(tmp_path: Path) -> None:
    trace = a_trace(tmp_path / "t.jsonl", *[JOB] * 3)
    ran = dispatcher("simulate", str(trace), "--nodes", "2", cwd=tmp_path)
    assert ran.stdout.splitlines()[1].split() == ["2", "8", "3", "0", "75.0%", "0.02"]
    assert ran.stdout.splitlines()[-1].split() == ["group", "default", "3", "0", "0", "0"]


def test_a_wrong_line_is_one_error_with_file_and_line(tmp_path: Path) -> None:
    trace = a_trace(tmp_path / "t.jsonl", JOB, JOB | {"impact": "two"})
    ran = dispatcher("simulate", str(trace), cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    words = f"dispatcher: {trace}, line 4: impact: not a number of at least 0: 'two'\n"
    assert ran.stderr == words
    ran = dispatcher("simulate", "missing.jsonl", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (
        2,
        "dispatcher: missing.jsonl: No such file or directory\n",
    )


def test_what_a_cluster_has_run_is_exported_and_can_be_played(
    tmp_path: Path, settings: Settings, engine: Engine
) -> None:
    with engine.begin() as connection:
        node = make_node(connection, "n1", capacity=50)
        make_job(connection)
        for age, lasted in ((7_200, 30), (600, 20), (500, 10)):
            job = make_job(connection, status="successful", task_impact=3, node_id=node)
            connection.execute(
                text(
                    "UPDATE job SET created = dispatcher_now() - make_interval(secs => :age),"
                    " started = dispatcher_now() - make_interval(secs => :lasted),"
                    " host_lock = 'exclusive', lock_keys = '{a}' WHERE id = :job"
                ),
                {"job": job, "age": age, "lasted": lasted},
            )
    url = str(settings.database_url)
    ran = dispatcher(
        *("trace", "export", "t.jsonl", "--since", "1h"), cwd=tmp_path, DISPATCHER_DATABASE_URL=url
    )
    assert (ran.returncode, ran.stderr) == (0, "dispatcher: t.jsonl: 2 jobs\n")
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [row for row in rows if "node" in row] == [
        {"node": "n1", "capacity": 50, "max_jobs": 200, "groups": ["default"]}
    ]
    first, second = [row for row in rows if "job" in row]
    assert (first["at"], round(second["at"]), round(first["duration"])) == (0, 100, 20)
    assert (first["impact"], first["tenant"], first["lock_keys"]) == (3, "Default", ["a"])
    played = dispatcher("simulate", "t.jsonl", "--json", cwd=tmp_path)
    assert json.loads(played.stdout)["simulations"][0]["jobs"] == 2


def test_a_since_that_is_no_time_is_refused(tmp_path: Path) -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"
    ran = dispatcher(
        *("trace", "export", "t", "--since", "soon"), cwd=tmp_path, DISPATCHER_DATABASE_URL=url
    )
    assert ran.returncode == 2
    assert "--since: neither 12h, 7d, 2w nor an ISO 8601 time: soon" in ran.stderr
