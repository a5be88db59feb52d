"""The lease file: whatever cannot be read has lapsed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dispatcher import clock
from workers import lease_file


def test_what_was_written_runs_down_by_the_boot_clock(tmp_path: Path) -> None:
    path = lease_file.lease_path(tmp_path)
    lease_file.write(path, clock.boottime() + 100)
    assert 99 < lease_file.remaining(path) <= 100
    lease_file.write(path, clock.boottime() - 1)
    assert lease_file.remaining(path) < 0


def test_two_files_take_turns_so_that_a_full_disk_keeps_no_renewal_from_being_written(
    tmp_path: Path,
) -> None:
    path = lease_file.lease_path(tmp_path)

    def files() -> dict[str, int]:
        return {each.name: each.stat().st_ino for each in tmp_path.iterdir()}

    for seconds in (100, 200):
        lease_file.write(path, clock.boottime() + seconds)
    first = files()
    assert set(first) == {"node_lease.json", "node_lease.json.tmp"}
    lease_file.write(path, clock.boottime() + 300)
    assert 299 < lease_file.remaining(path) <= 300
    assert sorted(files().values()) == sorted(first.values())
    assert files() != first


def test_a_missing_file_has_lapsed(tmp_path: Path) -> None:
    assert lease_file.remaining(tmp_path / "none") == 0


@pytest.mark.parametrize(
    "change",
    [{"boot_id": "another"}, {"format": 2}, {"deadline": None}, {"deadline": "soon"}],
)
def test_another_boot_format_or_nonsense_has_lapsed(
    tmp_path: Path, change: dict[str, object]
) -> None:
    path = tmp_path / "lease"
    lease_file.write(path, clock.boottime() + 100)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert lease_file.remaining(path) == 0


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_torn_file_has_lapsed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lease"
    path.write_bytes(content)
    assert lease_file.remaining(path) == 0
