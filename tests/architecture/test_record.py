"""The recorded example in docs/scheduling.md: written between its markers, and as it should be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import record


def recorded() -> str:
    page = record.PAGE.read_text()
    return page.partition(record.BEGIN)[2].partition(record.END)[0]


def test_the_page_shows_a_whole_run() -> None:
    shown = recorded()
    assert shown.count("kill -9: control") == len(record.CONTROL_DIES)
    assert "ann approves the workflow's second node" in shown
    assert f"{2 * record.JOBS + 2} jobs ended successful, each started once" in shown
    assert ", 0 pairs of them at once" in shown
    ratio = re.search(r"Blue used (\d\.\d\d) times", shown)
    assert ratio is not None
    assert 2.6 <= float(ratio[1]) <= 3.4


def test_a_new_record_takes_the_place_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{record.BEGIN}old\n{record.END}after\n")
    monkeypatch.setattr(record, "PAGE", page)
    record.write(["first"])
    record.write(["second"])
    written = page.read_text()
    assert written.startswith(f"before\n{record.BEGIN}")
    assert written.endswith(f"```\nsecond\n```\n\n{record.END}after\n")
    assert "first" not in written
    assert "old" not in written
