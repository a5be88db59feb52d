"""A short form of ``make faults``: a cluster under load is broken for a while, and loses nothing."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.faults.suite import run


@pytest.fixture
def directory(session_dir: Path) -> Path:
    made = session_dir / f"f{secrets.token_hex(2)}"
    made.mkdir(mode=0o711)
    return made


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", [1])
def test_a_cluster_that_is_broken_at_random_loses_and_doubles_nothing(
    directory: Path, seed: int
) -> None:
    report = run(directory, seconds=30, seed=seed)
    print(report.words())
    assert report.outcomes.total() > 10
    assert not report.findings
