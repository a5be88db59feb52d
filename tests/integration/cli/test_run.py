"""`dispatcher run` against a real server; the test acts as the node."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select

from dispatcher.db import tables as t
from dispatcher.db.engine import transaction
from dispatcher.domain.outcome import FACTS, Outcome
from tests.acting_node import ActingNode
from tests.command_line import dispatcher, ended, start, start_on_terminal
from tests.factories import default_organization
from tests.waiting import wait_until


def row_of(engine: Engine, job_id: int) -> dict[str, Any]:
    query = select(t.job, t.job_input).where(t.job.c.id == job_id).join(t.job_input)
    with transaction(engine) as connection:
        return dict(connection.execute(query).mappings().one())


def test_a_run_is_followed_to_its_end_and_exits_with_its_code(
    server: dict[str, str], node: ActingNode, project: Path
) -> None:
    process = start("run", "site.yml", "-i", "hosts.ini", cwd=project, **server)
    job_id = node.newest_job()
    node.hold(job_id, "no_nodes_online", groups=["default"])
    node.claim(job_id)
    node.print(job_id, ["", "PLAY [all] ****", "\x1b[0;33mchanged: [web1]\x1b[0m"])
    node.finish(job_id, Outcome.UNREACHABLE, "web2: no route to host", hosts=["web1", "web2"])
    code, out, err = ended(process)
    assert code == FACTS[Outcome.UNREACHABLE].exit_code
    assert out == "PLAY [all] ****\nchanged: [web1]\n"
    assert f"job {job_id} accepted" in err
    assert "uploading" in err
    recap = err.strip().splitlines()[-1]
    assert f"job {job_id} failed (unreachable)" in recap
    assert "2 hosts, 2 changed, 0 failed, 0 unreachable" in recap
    assert recap.endswith("web2: no route to host")


def test_why_a_job_waits_is_said_while_it_waits(
    server: dict[str, str], node: ActingNode, project: Path
) -> None:
    process = start("run", "site.yml", "-i", "h,", cwd=project, **server)
    job_id = node.newest_job()
    assert process.stderr is not None
    line = ""
    while "accepted" not in line:
        line = process.stderr.readline()
    node.hold(job_id, "no_nodes_online", groups=["default"])
    first = process.stderr.readline()
    assert first.startswith(f"dispatcher: job {job_id} is pending: ")
    assert "default" in first
    node.hold(job_id, "all_drained", groups=["default"], nodes=1)
    second = process.stderr.readline()
    assert second.startswith(f"dispatcher: job {job_id} is pending: ")
    assert second != first
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 3


def test_every_option_reaches_the_job(
    server: dict[str, str], engine: Engine, project: Path
) -> None:
    (project / "vars.yml").write_text("b: [1, 2]\n")
    answer = dispatcher(
        *("run", "site.yml", "-i", "hosts.ini", "-l", "web1", "-e", "a=1", "-e", "@vars.yml"),
        *("--secret-var", "password", "-t", "x,y", "-t", "z", "--skip-tags", "slow", "-C", "-D"),
        *("-f", "9", "-vvv", "--timeout", "60", "--idle-timeout", "30", "--name", "my run"),
        *("--priority", "3", "--allow-no-hosts", "--max-unreachable", "10%", "--max-failed", "1"),
        *("--host-lock", "exclusive", "--host-key-policy", "strict", "--instance-group", "default"),
        *("--detach",),
        cwd=project,
        password="hunter2",
        **server,
    )
    assert answer.returncode == 0, answer.stderr
    row = row_of(engine, int(answer.stdout))
    expected = {
        "playbook": "site.yml",
        "inventory": None,
        "inventory_path": "hosts.ini",
        "limit_pattern": "web1",
        "extra_vars": {"a": "1", "b": [1, 2]},
        "tags": ["x", "y", "z"],
        "skip_tags": ["slow"],
        "check_mode": True,
        "diff_mode": True,
        "verbosity": 3,
        "timeout": 60,
        "idle_timeout": 30,
        "name": "my run",
        "priority": 3,
        "allow_no_hosts": True,
        "max_unreachable": "10%",
        "max_failed": "1",
        "host_key_policy": "strict",
    }
    assert {name: row[name] for name in expected} == expected
    assert row["secret_vars"] is not None
    assert b"hunter2" not in row["secret_vars"]
    assert "hunter2" not in answer.stdout + answer.stderr


def test_a_credential_is_found_by_its_name(
    server: dict[str, str], engine: Engine, project: Path
) -> None:
    with transaction(engine) as connection:
        number = connection.scalar(
            insert(t.credential)
            .values(organization_id=default_organization(connection), name="web 1", kind="ssh")
            .returning(t.credential.c.id)
        )
    arguments = ("run", "site.yml", "-i", "h,", "--detach", "--credential")
    answer = dispatcher(*arguments, "web 1", cwd=project, **server)
    assert answer.returncode == 0, answer.stderr
    with transaction(engine) as connection:
        (link,) = connection.execute(select(t.job_credential)).all()
    assert tuple(link) == (int(answer.stdout), number, "web 1")
    answer = dispatcher(*arguments, "web 2", cwd=project, **server)
    assert (answer.returncode, "credential: web 2: there is none" in answer.stderr) == (2, True)


def test_the_same_directory_is_uploaded_once(server: dict[str, str], project: Path) -> None:
    arguments = ("run", "site.yml", "-i", "h,", "--detach")
    first = dispatcher(*arguments, cwd=project, **server)
    os.utime(project / "site.yml", (1, 1))
    second = dispatcher(*arguments, cwd=project, **server)
    assert "uploading" in first.stderr
    assert second.returncode == 0
    assert "uploading" not in second.stderr
    assert int(second.stdout) == int(first.stdout) + 1


def test_the_same_key_finds_the_same_job_and_its_whole_log(
    server: dict[str, str], node: ActingNode, project: Path
) -> None:
    arguments = ("run", "site.yml", "-i", "h,", "--idempotency-key", "build-7")
    job_id = int(dispatcher(*arguments, "--detach", cwd=project, **server).stdout)
    node.claim(job_id)
    node.print(job_id, ["one", "two"])
    node.finish(job_id, Outcome.FAILED_HOSTS)
    again = dispatcher(*arguments, cwd=project, **server)
    assert (again.returncode, again.stdout) == (1, "one\ntwo\n")
    assert f"job {job_id} was accepted before" in again.stderr
    other = dispatcher(*arguments, "-C", cwd=project, **server)
    assert other.returncode == 2
    assert "used for another request" in other.stderr


def test_ctrl_c_cancels_and_waits_for_the_end(
    server: dict[str, str], node: ActingNode, project: Path
) -> None:
    process = start("run", "site.yml", "-i", "h,", cwd=project, **server)
    job_id = node.newest_job()
    node.claim(job_id)
    node.print(job_id, ["before"])
    assert process.stdout is not None
    assert process.stdout.readline() == "before\n"
    process.send_signal(signal.SIGINT)
    wait_until(lambda: node.cancel_requested(job_id), what="the cancel was asked for")
    node.print(job_id, ["stopped"])
    node.finish(job_id, Outcome.FAILED_HOSTS)
    code, out, err = ended(process)
    assert (code, out) == (3, "stopped\n")
    assert "Ctrl-C again detaches" in err
    assert f"job {job_id} canceled" in err.splitlines()[-1]


def test_a_second_ctrl_c_detaches(server: dict[str, str], node: ActingNode, project: Path) -> None:
    process = start("run", "site.yml", "-i", "h,", cwd=project, **server)
    job_id = node.newest_job()
    node.claim(job_id)
    node.print(job_id, ["before"])
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: node.cancel_requested(job_id), what="the cancel was asked for")
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code == 130
    assert f"detached; job {job_id} goes on" in err


def test_json_is_one_object_a_line_with_every_event_and_the_final_job(
    server: dict[str, str], node: ActingNode, project: Path
) -> None:
    process = start("run", "site.yml", "-i", "h,", "--json", cwd=project, **server)
    job_id = node.newest_job()
    node.claim(job_id)
    node.print(job_id, ["one", "two"])
    node.finish(job_id, Outcome.SUCCESSFUL)
    code, out, _ = ended(process)
    objects = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [o["stdout"] for o in objects if o["type"] == "job_event"] == ["one", "two"]
    assert (objects[-1]["type"], objects[-1]["status"]) == ("job", "successful")


def test_on_a_terminal_colors_come_and_other_control_sequences_do_not(
    server: dict[str, str], node: ActingNode, project: Path
) -> None:
    process, terminal = start_on_terminal("run", "site.yml", "-i", "h,", cwd=project, **server)
    job_id = node.newest_job()
    node.claim(job_id)
    node.print(job_id, ["\x1b[0;32mok\x1b[0m", "\x1b[2Jx\x1b]0;title\x07y"])
    node.finish(job_id, Outcome.SUCCESSFUL)
    seen = b""
    try:
        while chunk := os.read(terminal, 4096):
            seen += chunk
    except OSError:  # the other side of a terminal has gone
        pass
    os.close(terminal)
    assert process.wait(20) == 0
    assert seen == b"\x1b[0;32mok\x1b[0m\r\nxy\r\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.yml", "-i", "h,"), "nowhere.yml: no such file"),
        (("site.yml",), "-i: is required"),
        (("site.yml", "-i", "h,", "-l", "--version"), "limit: "),
        (("site.yml", "-i", "h,", "-e", "x"), "-e: 'x'"),
        (("site.yml", "-i", "h,", "--secret-var", "missing"), "no environment variable missing"),
        (("site.yml", "-i", "h,", "--max-failed", "many"), "max_failed: "),
        (("site.yml", "-i", "h,", "--instance-group", "nowhere"), "instance_groups: "),
        (("roles/site.yml", "-i", "h,", "--directory", "inventories"), "not below it"),
    ],
)
def test_what_is_refused_is_one_line_that_names_it(
    server: dict[str, str], project: Path, arguments: tuple[str, ...], words: str
) -> None:
    (project / "roles").mkdir()
    (project / "roles" / "site.yml").write_text("[]")
    (project / "inventories").mkdir()
    answer = dispatcher("run", *arguments, cwd=project, **server)
    assert answer.returncode == 2
    lines = answer.stderr.splitlines()
    assert words in lines[-1]
    # what only the server knows is refused after the upload
    assert [line for line in lines if "uploading" not in line] == lines[-1:]
    assert lines[-1].startswith("dispatcher: ")
    assert answer.stdout == ""
