"""docs/protocols.md against the code: every rule that is cited exists, every test and metric too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dispatcher import metrics

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/protocols.md").read_text()
RULES = set(re.findall(r"^## (\d)\. ", PAGE, re.M)) | set(
    re.findall(r"^- \*\*(\d\.\d+)\b", PAGE, re.M)
)
PAGES = sorted((ROOT / "docs").glob("*.md"))


def citations() -> set[tuple[str, str]]:
    found = set()
    for package in ("dispatcher", "schedulers", "workers", "tests", "benchmarks"):
        for file in (ROOT / package).rglob("*.py"):
            for numbers in re.findall(
                r"docs/protocols\.md\s+((?:\d(?:\.\d+)?(?:, | and )?)+)", file.read_text()
            ):
                for number in re.findall(r"\d(?:\.\d+)?", numbers):
                    found.add((number, str(file.relative_to(ROOT))))
    return found


def test_every_rule_that_the_code_cites_is_on_the_page() -> None:
    cited = citations()
    assert len(cited) > 30
    assert {(number, file) for number, file in cited if number not in RULES} == set()


def test_every_test_that_the_page_names_exists() -> None:
    names = set(re.findall(r"`(?:tests/[\w/]*)?(test_\w+\.py)`", PAGE))
    present = {file.name for file in (ROOT / "tests").rglob("test_*.py")}
    assert names
    assert names - present == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_metric_that_a_page_names_is_one_of_ours(page: Path) -> None:
    cluster = (ROOT / "dispatcher/api/v2/metrics.py").read_text()
    ours = set(re.findall(r'"(dispatcher_\w+)"', cluster))
    ours |= set(re.findall(r'"(dispatcher_\w+)"', Path(metrics.__file__).read_text()))
    named = set(re.findall(r"`(dispatcher_[a-z_]+)[`{]", page.read_text()))
    assert named - ours == set()
