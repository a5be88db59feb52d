"""docs/dependencies.md has one line for each dependency, in the right part, and no other."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def names(lines: str) -> set[str]:
    return {re.split(r"[<>=!~;\[ ]", line)[0] for line in lines.split("\n") if line.strip()}


def test_every_dependency_has_its_line() -> None:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    parts = re.split(r"^## ", (ROOT / "docs/dependencies.md").read_text(), flags=re.M)[1:]
    documented = {
        part.split("\n")[0]: set(re.findall(r"^\| ([A-Za-z0-9-]+) \|", part, re.M)) - {"package"}
        for part in parts
    }
    extras = config["options.extras_require"]
    assert documented == {
        "Always installed": names(config["options"]["install_requires"]),
        **{f"Extra `{extra}`": names(extras[extra]) for extra in extras},
    }
