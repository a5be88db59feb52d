"""What the pages point to exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


def test_the_directories_that_the_map_names_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text().split("## The tree")[1]
    named = re.findall(r"`([a-z/]+/)`", page)
    assert named
    assert not [name for name in named if not (ROOT / name).is_dir()]
