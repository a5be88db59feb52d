"""The records in docs/scheduling.md and docs/api_v1.md: between their markers, and as they should be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import record, seed_scenario
from benchmarks.recorded import BEGIN, END, read_record


def test_the_page_shows_a_whole_run() -> None:
    shown = read_record(record.PAGE)
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
    page.write_text(f"before\n{BEGIN}old\n{END}after\n")
    monkeypatch.setattr(record, "PAGE", page)
    record.write(["first"])
    record.write(["second"])
    written = page.read_text()
    assert written.startswith(f"before\n{BEGIN}")
    assert written.endswith(f"```\nsecond\n```\n\n{END}after\n")
    assert "first" not in written
    assert "old" not in written


def test_the_seed_scenario_of_the_page_lost_nothing() -> None:
    shown = read_record(seed_scenario.PAGE)
    for count in seed_scenario.COUNTS:
        assert f"{count} plays at once" in shown
        assert f"POST playbooks/<name>        202 STARTED {count:9,}" in shown
        assert f"an hour later: {count} of {count} summaries exact" in shown
    codes = re.findall(r"^  (?:GET|POST) \S+ +(\d+ \S+)", shown, re.M)
    assert set(codes) == {"200 OK", "202 STARTED"}
    assert len(codes) == 3 * len(seed_scenario.COUNTS)
