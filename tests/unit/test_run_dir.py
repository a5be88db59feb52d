"""The run directory: what agent and supervisor tell each other through the disk."""

from __future__ import annotations

import os
import resource
import shutil
import stat
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from dispatcher.domain.outcome import Outcome
from dispatcher.errors import RunDirectoryError
from workers.durable import draft_of, write_durably
from workers.outcome import Evidence, Tolerances, decide
from workers.run_dir import JobSpec, Result, RunDir, SupervisorRecord
from workers.spool import COLUMNS, SpoolReader

FIRST = Path(__file__).parents[1] / "fixtures" / "run_directory"

SPEC = JobSpec(
    job_id=7,
    dispatch_id="d1",
    node="n1",
    lease_file="/x/node_lease.json",
    playbook="site.yml",
    inventory="localhost\n",
    extra_vars={"a": "1"},
    secret_vars={"password": "hunter22"},
    tags=("x",),
    masked=("key\nkey",),
    max_failed="10%",
)


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path, "d1")


def test_a_directory_is_made_once_and_is_private(tmp_path: Path, run_dir: RunDir) -> None:
    assert stat.S_IMODE(run_dir.path.stat().st_mode) == 0o700
    assert list(run_dir.path.iterdir()) == []
    with pytest.raises(RunDirectoryError, match="File exists"):
        RunDir.create(tmp_path, "d1")
    assert [each.dispatch_id for each in RunDir.all(tmp_path)] == ["d1"]


def test_a_job_comes_back_as_it_was_written(run_dir: RunDir) -> None:
    run_dir.write_job(SPEC)
    assert run_dir.read_job() == SPEC
    assert run_dir.read_job().tolerances == Tolerances(False, "0", "10%")
    assert stat.S_IMODE((run_dir.path / "job.json").stat().st_mode) == 0o600


def test_the_right_to_start_is_won_once(run_dir: RunDir) -> None:
    assert not run_dir.is_started()
    assert [run_dir.take_start(), run_dir.take_start()] == [True, False]
    assert run_dir.is_started()


def test_alive_is_held_by_one_and_let_go_with_the_descriptor(run_dir: RunDir) -> None:
    assert not run_dir.is_alive()
    assert run_dir.sign_of_life() is None
    descriptor = run_dir.hold_alive()
    assert descriptor is not None
    assert run_dir.is_alive()
    assert run_dir.sign_of_life() is not None
    os.close(descriptor)
    assert not run_dir.is_alive()


def test_a_result_comes_back_as_it_was_written(run_dir: RunDir) -> None:
    assert run_dir.read_result() is None
    result = Result(
        job_id=7,
        dispatch_id="d1",
        evidence=Evidence(rc=2, stats={"failures": {"a": 1}}, killed=3),
        tolerances=Tolerances(max_failed="1"),
        artifacts={"a": [1]},
        events_total=5,
        spool_bytes=1000,
        started="2026-01-01T00:00:00+00:00",
        finished="2026-01-01T00:00:01+00:00",
    )
    run_dir.write_result(result)
    assert run_dir.read_result() == result


def test_a_supervisor_says_which_process_it_is(run_dir: RunDir) -> None:
    assert run_dir.read_supervisor() is None
    record = SupervisorRecord(pid=10, pid_start=99, boot_id="b", started_at=1.5)
    run_dir.write_supervisor(record)
    assert run_dir.read_supervisor() == record


def test_the_first_reason_for_a_stop_stands(run_dir: RunDir) -> None:
    assert run_dir.stop_requested() is None
    run_dir.request_stop("fenced")
    run_dir.request_stop("cancel")
    assert run_dir.stop_requested() == "fenced"


def test_what_is_shipped_is_told_by_offset(run_dir: RunDir) -> None:
    assert run_dir.shipped() == 0
    run_dir.write_shipped(123)
    assert run_dir.shipped() == 123


def test_wiping_leaves_no_secret_and_can_be_repeated(run_dir: RunDir) -> None:
    run_dir.write_job(SPEC)
    for tree in (run_dir.project, run_dir.private, run_dir.artifacts, run_dir.inventory):
        (tree / "deep").mkdir(parents=True)
        (tree / "deep" / "file").write_text("hunter22")
    locked = run_dir.project / "locked"
    locked.mkdir()
    (locked / "file").write_text("hunter22")
    locked.chmod(0o000)
    (run_dir.project / "away").symlink_to("/etc")
    run_dir.spool.mkdir()
    for _ in range(2):
        run_dir.wipe_secrets()
        left = [path for path in run_dir.path.rglob("*") if path.is_file()]
        assert left == [run_dir.path / "job.json"]
        assert b"hunter22" not in left[0].read_bytes()
        assert b"key" not in left[0].read_bytes().replace(b"host_key", b"").replace(b"scm_key", b"")
    assert run_dir.spool.is_dir()
    assert run_dir.read_job().max_failed == "10%"


def test_a_job_that_the_disk_refuses_leaves_no_secret_behind(run_dir: RunDir) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = replace(SPEC, secret_vars={"password": "hunter22" * 1000})
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(RunDirectoryError, match=r"job\.json: File too large"):
            run_dir.write_job(large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(run_dir.path.iterdir()) == []


def test_a_failed_write_leaves_the_old_content_and_no_draft(run_dir: RunDir) -> None:
    path = run_dir.path / "name"
    (path / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_durably(path, b"hunter22")
    assert not draft_of(path).exists()
    assert [each.name for each in path.iterdir()] == ["in the way"]


@pytest.mark.parametrize("written", [None, "whole", "garbled"])
def test_wiping_removes_the_draft_that_a_kill_has_left(
    run_dir: RunDir, written: str | None
) -> None:
    if written is not None:
        run_dir.write_job(SPEC)
    if written == "garbled":
        (run_dir.path / "job.json").write_text("{")
    draft = draft_of(run_dir.path / "job.json")
    draft.write_text('{"secret_vars": {"password": "hunter22"')
    with pytest.raises(RunDirectoryError) if written == "garbled" else nullcontext():
        run_dir.wipe_secrets()
    assert not draft.exists()
    left = [path.read_bytes() for path in run_dir.path.rglob("*") if path.is_file()]
    assert all(b"hunter22" not in content for content in left)


def test_removing_leaves_nothing_and_can_be_repeated(tmp_path: Path, run_dir: RunDir) -> None:
    run_dir.write_job(SPEC)
    run_dir.remove()
    run_dir.remove()
    assert list((tmp_path / "runs").iterdir()) == []


def test_what_a_crash_left_half_removed_is_no_run_directory(
    tmp_path: Path, run_dir: RunDir
) -> None:
    half = tmp_path / "runs" / ".d0.removed"
    (half / "spool").mkdir(parents=True)
    assert [each.dispatch_id for each in RunDir.all(tmp_path)] == ["d1"]
    assert not half.exists()


def test_what_a_newer_version_wrote_is_refused_with_both_formats(run_dir: RunDir) -> None:
    (run_dir.path / "result.json").write_text('{"format": 2, "unheard_of": {}}')
    words = (
        r"result\.json: format 2, of a newer version of this package; this version reads format 1"
    )
    with pytest.raises(RunDirectoryError, match=words):
        run_dir.read_result()


@pytest.fixture
def first(tmp_path: Path) -> RunDir:
    """What the first version of format 1 left of a run: ``job_before.json`` is from before its end."""
    return RunDir(shutil.copytree(FIRST, tmp_path / "runs" / "first"))


def test_what_the_first_version_of_this_format_left_is_read_whole(first: RunDir) -> None:
    result, record = first.read_result(), first.read_supervisor()
    assert result is not None
    assert record is not None
    decided = decide(result.evidence, result.tolerances)
    assert (decided.outcome, decided.explanation) == (
        Outcome.SUCCESSFUL,
        "1 of 2 hosts failed: two (tolerated)",
    )
    assert (result.artifacts, result.update) == ({"version": "1.2"}, {})
    batch = SpoolReader(first.spool).read(0)
    assert (len(batch.lines), batch.total) == (result.events_total, result.events_total)
    assert SpoolReader(first.spool).size == result.spool_bytes
    assert {line.count(b"\t") for line in batch.lines} == {len(COLUMNS) - 1}


def test_a_job_of_the_first_version_of_this_format_is_read_and_wiped(first: RunDir) -> None:
    (first.path / "job_before.json").rename(first.path / "job.json")
    spec = first.read_job()
    assert (spec.secret_vars, spec.kind, spec.credentials) == (
        {"word": "swordfish"},
        "playbook",
        (),
    )
    first.wipe_secrets()
    assert first.read_job().secret_vars == {}
    assert b"swordfish" not in (first.path / "job.json").read_bytes()


@pytest.mark.parametrize("content", ["", "[]", '{"format": 2}', '{"format": 1}'])
def test_what_cannot_be_understood_is_an_error_that_names_the_file(
    run_dir: RunDir, content: str
) -> None:
    (run_dir.path / "job.json").write_text(content)
    with pytest.raises(RunDirectoryError, match=r"job\.json"):
        run_dir.read_job()


def test_fields_of_a_newer_version_are_passed_over(run_dir: RunDir) -> None:
    run_dir.write_job(SPEC)
    path = run_dir.path / "job.json"
    path.write_text(path.read_text().replace('{"format": 1,', '{"format": 1, "newer": true,'))
    assert run_dir.read_job() == SPEC
