"""What ``make records`` writes into pages: lines between two markers, and the machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import machine

BEGIN, END = "<!-- record: written by make records -->\n", "<!-- end of the record -->\n"


def write_record(page: Path, lines: Sequence[str]) -> None:
    """Put lines between a page's markers."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    about = machine()
    words = f"Recorded on {about['cpus']} CPUs, load {about['load_before']} at its end."
    body = "\n".join(lines)
    page.write_text(f"{before}{BEGIN}\n{words}\n\n```\n{body}\n```\n\n{END}{after}", "utf-8")


def read_record(page: Path) -> str:
    """What is between a page's markers."""
    return page.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
