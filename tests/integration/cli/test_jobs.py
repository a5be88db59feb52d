"""`dispatcher jobs` and `node`, and what every command says when there is no answer."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from sqlalchemy import Engine, text

from dispatcher.domain.outcome import Outcome
from tests.acting_node import ActingNode
from tests.command_line import dispatcher, ended, start
from tests.waiting import wait_until


def test_following_a_job_never_cancels_it(
    server: dict[str, str], node: ActingNode, project: Path
) -> None:
    job_id = int(
        dispatcher("run", "site.yml", "-i", "h,", "--detach", cwd=project, **server).stdout
    )
    node.claim(job_id)
    node.print(job_id, ["line"])
    process = start("jobs", "follow", str(job_id), cwd=project, **server)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 130
    assert not node.cancel_requested(job_id)


def test_a_reader_that_goes_away_ends_the_command_quietly(
    server: dict[str, str], node: ActingNode, project: Path
) -> None:
    job_id = int(
        dispatcher("run", "site.yml", "-i", "h,", "--detach", cwd=project, **server).stdout
    )
    node.claim(job_id)
    process = start("jobs", "follow", str(job_id), cwd=project, **server)
    node.print(job_id, ["one"])
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    node.print(job_id, ["two"])
    assert process.wait(20) == 141
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


def test_no_server_a_bad_token_and_an_unknown_job_have_their_codes(
    server: dict[str, str], project: Path, data_dir: Path
) -> None:
    away = {"DISPATCHER_URL": "http://127.0.0.1:9", "DISPATCHER_TOKEN": "x"}
    for arguments, variables, code, words in [
        (("jobs", "list"), away, 4, "Connection refused"),
        (("jobs", "list"), {"DISPATCHER_DATA_DIR": str(data_dir)}, 2, "no server"),
        (("jobs", "list"), server | {"DISPATCHER_URL": "nonsense"}, 2, "DISPATCHER_URL"),
        (
            ("run", "site.yml", "-i", "h,"),
            server | {"DISPATCHER_TOKEN": "dsp_wrong"},
            2,
            "Invalid token",
        ),
        (("jobs", "show", "99"), server, 2, "Not found"),
        (("jobs", "cancel", "99"), server, 2, "no job 99"),
        (("token", "list"), {"DISPATCHER_DATA_DIR": str(data_dir)}, 2, "DISPATCHER_DATABASE_URL"),
    ]:
        answer = dispatcher(*arguments, cwd=project, **variables)
        assert answer.returncode == code, answer.stderr
        assert words in answer.stderr
        assert "Traceback" not in answer.stderr


def test_jobs_are_listed_shown_and_canceled(
    server: dict[str, str], node: ActingNode, project: Path
) -> None:
    ids = [
        int(dispatcher("run", "site.yml", "-i", "h,", "--detach", cwd=project, **server).stdout)
        for _ in range(2)
    ]
    node.claim(ids[0])
    node.print(ids[0], ["\x1b[0;32mok\x1b[0m", "ä"])
    node.finish(ids[0], Outcome.SUCCESSFUL, hosts=["h"])

    listed = dispatcher("jobs", "list", "--json", cwd=project, **server)
    assert [job["id"] for job in json.loads(listed.stdout)] == ids[::-1]
    table = dispatcher("jobs", "list", "--status", "successful", cwd=project, **server).stdout
    assert [line.split()[:4] for line in table.splitlines()[1:]] == [
        [str(ids[0]), "successful", "site.yml", "n1"]
    ]
    shown = dispatcher("jobs", "show", str(ids[0]), cwd=project, **server).stdout
    assert "successful" in shown
    assert shown.splitlines()[-1].split() == ["h", "2", "1", "0", "0", "0"]
    plain = dispatcher("jobs", "stdout", str(ids[0]), cwd=project, **server)
    assert plain.stdout == "ok\nä\n"
    colored = dispatcher("jobs", "stdout", "--color", str(ids[0]), cwd=project, **server)
    assert colored.stdout == "\x1b[0;32mok\x1b[0m\nä\n"

    canceled = dispatcher("jobs", "cancel", "--wait", str(ids[1]), cwd=project, **server)
    assert canceled.returncode == 3
    again = dispatcher("jobs", "cancel", str(ids[1]), cwd=project, **server)
    assert again.returncode == 2
    assert "ended" in again.stderr


def test_nodes_are_listed(server: dict[str, str], node: ActingNode, project: Path) -> None:
    table = dispatcher("node", "list", cwd=project, **server).stdout
    assert table.splitlines()[1].split()[:5] == ["n1", "alive", "100", "0", "0"]


def test_following_moves_on_to_the_job_that_repeats_a_lost_one(
    server: dict[str, str], node: ActingNode, engine: Engine, project: Path
) -> None:
    job_id = int(
        dispatcher("run", "site.yml", "-i", "h,", "--detach", cwd=project, **server).stdout
    )
    with engine.begin() as connection:
        connection.execute(text("UPDATE job SET retries_left = 1"))
    node.claim(job_id)
    node.print(job_id, ["first try"])
    process = start("jobs", "follow", str(job_id), cwd=project, **server)
    assert process.stdout is not None
    process.stdout.readline()
    node.finish(job_id, Outcome.NODE_LOST, "gone")
    retry = node.newest_job(after=job_id)
    node.claim(retry)
    node.print(retry, ["second try"])
    node.finish(retry, Outcome.SUCCESSFUL)
    code, output, words = ended(process)
    assert code == 0
    assert output == "second try\n"
    assert f"job {job_id} was lost with node n1; job {retry} repeats it" in words
    assert words.rstrip().splitlines()[-1].startswith(f"dispatcher: job {retry} successful")


def test_a_cancel_meant_for_a_lost_job_reaches_its_retry(
    server: dict[str, str], node: ActingNode, engine: Engine, project: Path
) -> None:
    process = start("run", "site.yml", "-i", "h,", cwd=project, **server)
    job_id = node.newest_job()
    with engine.begin() as connection:
        connection.execute(text("UPDATE job SET retries_left = 1"))
    node.claim(job_id)
    node.print(job_id, ["first try"])
    assert process.stdout is not None
    process.stdout.readline()
    node.finish(job_id, Outcome.NODE_LOST, "gone")
    retry = node.newest_job(after=job_id)
    node.claim(retry)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: node.cancel_requested(retry), what="the retry is to be canceled")
    node.finish(retry, Outcome.CANCELED)
    assert ended(process)[0] == 3
