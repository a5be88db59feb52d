"""`dispatcher doctor`: servers, keys, nodes and lost runs, asked for directly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg2
import pytest
from psycopg2.extras import PhysicalReplicationConnection
from sqlalchemy import Engine, text

from dispatcher.secrets import make_key_file
from dispatcher.settings import Settings, environment
from tests.command_line import dispatcher
from tests.factories import make_job, make_node

Found = list[tuple[str, str, str]]


def examined(settings: Settings, cwd: Path) -> tuple[int, Found]:
    done = dispatcher("doctor", "--json", cwd=cwd, **environment(settings))
    return done.returncode, [
        (f["level"], f["subject"], f["words"]) for f in json.loads(done.stdout)
    ]


@pytest.fixture
def cluster(settings: Settings, engine: Engine) -> Settings:
    make_key_file(settings.data_dir / "cluster.key")
    with engine.begin() as connection:
        make_node(connection, "n1")
    return settings


@contextmanager
def follower(url: str) -> Iterator[None]:
    """A server's log is sent to somebody, as it is to a replica."""
    connection = psycopg2.connect(url, connection_factory=PhysicalReplicationConnection)
    try:
        with connection.cursor() as cursor:
            cursor.execute("IDENTIFY_SYSTEM")
            cursor.start_replication(start_lsn=cursor.fetchone()[2])
            yield
    finally:
        connection.close()


def test_a_cluster_whose_server_loses_commits_is_in_error_and_the_rest_is_told(
    cluster: Settings, tmp_path: Path
) -> None:
    """The tests' own server is such a one: it does not wait for its disk."""
    code, found = examined(cluster, tmp_path)
    assert code == 1
    assert [(level, subject) for level, subject, _ in found] == [
        ("error", "database"),
        ("ok", "schema"),
        ("ok", "clock"),
        ("ok", "nodes"),
        ("ok", "jobs"),
        ("ok", "broker"),
        ("ok", "key file"),
    ]
    assert "fsync is off" in found[0][2]


def test_replicas_that_no_commit_waits_for_are_an_error(
    cluster: Settings, database_url: str, tmp_path: Path
) -> None:
    with follower(database_url):
        _, found = examined(cluster, tmp_path)
    assert ["1 servers follow it" in words for _, subject, words in found[:2]] == [False, True]


def test_what_is_away_or_unreadable_is_told_beside_the_rest(
    cluster: Settings, tmp_path: Path
) -> None:
    (cluster.data_dir / "cluster.key").chmod(0o644)
    gone = cluster.model_copy(update={"broker_url": "redis://127.0.0.1:1/0"})
    _, found = examined(gone, tmp_path)
    assert [(level, subject) for level, subject, _ in found[-2:]] == [
        ("error", "broker"),
        ("error", "key file"),
    ]
    away = gone.model_copy(update={"database_url": "postgresql://x@127.0.0.1:1/x"})
    code, found = examined(away, tmp_path)
    assert (code, [subject for _, subject, _ in found]) == (1, ["database", "broker", "key file"])


def test_a_run_that_was_lost_with_its_node_is_shown_with_its_directory(
    cluster: Settings, engine: Engine, tmp_path: Path
) -> None:
    dispatch = uuid4()
    with engine.begin() as connection:
        node = connection.execute(text("SELECT id FROM node")).scalar_one()
        job = make_job(connection, status="running", node_id=node)
        connection.execute(
            text(
                "UPDATE job SET status = 'error', outcome = 'node_lost', dispatch_id = :dispatch,"
                " finished = dispatcher_now() WHERE id = :job"
            ),
            {"job": job, "dispatch": dispatch},
        )
    directory = cluster.data_dir / "nodes" / "n1" / "runs" / str(dispatch)
    directory.mkdir(parents=True)
    _, found = examined(cluster, tmp_path)
    (words,) = [words for _, subject, words in found if subject == "jobs"]
    assert words.startswith(f"job {job} ended with its node n1; 0 events are stored")
    assert str(directory) in words
