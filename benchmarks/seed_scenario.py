"""``make seed-scenario``: 7, 50 and 500 real plays at once through REST v1, as tests.seed_scenario has it.

``--record`` writes what was asked and answered into docs/api_v1.md; a number plays only so many at once.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.recorded import write_record
from benchmarks.servers import short_directory
from dispatcher import logs
from dispatcher import settings as settings_module
from tests.seed_scenario import (
    Scenario,
    engine_of,
    exact_summaries,
    make_seed_root,
    plays,
    three_processes,
)
from tests.stack import running_stack

PAGE = Path(__file__).parents[1] / "docs" / "api_v1.md"
#: Plays at once → seconds of the oldest, and seconds after which it is given up.
COUNTS = {7: (6, 180.0), 50: (20, 600.0), 500: (120, 2400.0)}


def main(arguments: list[str]) -> int:
    """Play all of them; 1 if something was not as it should be."""
    logs.configure(settings_module.load(log_level="error"), role="seed scenario")
    lines: list[str] = []
    with short_directory() as directory:
        config = make_seed_root(directory / "root")
        # 20 plays run at once
        with running_stack(directory / "s", v1_config=config, node_capacity=40) as stack:
            for count in [int(each) for each in arguments if each.isdigit()] or COUNTS:
                longest, timeout = COUNTS[count]
                with three_processes(stack, config) as processes, engine_of(stack) as engine:
                    scenario = Scenario(processes, plays(count, longest=longest), pause=0.05)
                    took = scenario.play(timeout=timeout)
                    exact = exact_summaries(scenario, engine)
                for line in _told(scenario, count, took, exact):
                    lines.append(line)
                    print(line, flush=True)
                for problem in scenario.tally.wrong[:20]:
                    print(f"WRONG: {problem}", file=sys.stderr)
                if scenario.tally.wrong:
                    return 1
    if "--record" in arguments:
        write_record(PAGE, lines)
    return 0


def _told(scenario: Scenario, count: int, took: float, exact: dict[str, int]) -> Iterator[str]:
    tally = scenario.tally
    yield f"{count} plays at once, three API processes, ended after {took:.0f} s"
    for (call, code, status), number in sorted(tally.answers.items(), reverse=True):
        yield f"  {call:28} {code} {status:7} {number:9,}"
    words = ", ".join(f"{word} {number:,}" for word, number in sorted(tally.words.items()))
    yield f"  words of the runs meanwhile: {words}"
    yield f"  kill -9 of one process; calls that it did not answer, asked again of another: {tally.cut}"
    for when, number in exact.items():
        yield f"  {when}: {number} of {count} summaries exact"


if __name__ == "__main__":
    # whoever ends this early must not leave its servers and roles behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
