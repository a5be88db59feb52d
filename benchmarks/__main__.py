"""``make bench``: run every benchmark, print a table, write ``build/bench.json``.

Exit code 1 when a bound is missed by more than a quarter, or a benchmark breaks off. ``python -m benchmarks NAME …`` runs
some of them.
"""

from __future__ import annotations

import importlib
import signal
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, judge, machine, unmeasured, write
from dispatcher import logs
from dispatcher import settings as settings_module

#: In order; each module has ``measure() -> list[Figure]``.
BENCHMARKS = (
    "plan_tasks",
    "dependencies",
    "workflows",
    "task_pass",
    "backlog",
    "reactions",
    "workflow_latency",
    "finishes",
    "inventory_import",
    "fleet",
    "slow_database",
    "event_path",
    "max_connections",
    "start_up",
    "latency",
    "throughput",
    "node",
    "runner_service",
    "full_node",
    "restarts",
    "half_open",
    "agent_growth",
    # last, because they take minutes
    "million_events",
    "simulation",
)


def main(names: list[str]) -> int:
    console = Console()
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        console.print(
            f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}"
        )
        return 2
    logs.configure(settings_module.load(log_level="error"), role="benchmarks")
    console.print(machine())
    figures: list[Figure] = []
    broken = []
    for name in names or BENCHMARKS:
        console.print(f"… {name}")
        try:
            found = importlib.import_module(f"benchmarks.{name}").measure()
        except Exception:
            # what the others found, or will, is not lost for it
            console.print_exception()
            broken.append(name)
            continue
        for figure in found:
            console.print(f"  {figure.name} {figure.value:.4g} {figure.unit} ({figure.comparison})")
        figures += found
        write(judge(figures), Path("build/bench.json"))
    judged = judge(figures)
    # a bound that nothing measures any more would be met for ever
    forgotten = [] if names else unmeasured(figures)
    if forgotten:
        console.print(f"bounds without a figure: {', '.join(forgotten)}")
    table = Table("figure", "value", "unit", "bound", "", "comparison")
    for one in judged:
        sign = ">=" if one.higher_is_better else "<="
        bound = "" if one.bound is None else f"{sign} {one.bound:g}"
        mark = "" if one.bound is None else "met" if one.met else "MISSED"
        figure = one.figure
        table.add_row(
            figure.name, f"{figure.value:.4g}", figure.unit, bound, mark, figure.comparison
        )
    console.print(table)
    if broken:
        console.print(f"broken off: {', '.join(broken)}")
    return 1 if broken or forgotten or any(one.failed for one in judged) else 0


if __name__ == "__main__":
    # whoever ends this early must not leave its servers and roles behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
