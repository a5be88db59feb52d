"""``python -m tests.faults --seconds S --seed N``: the suite, with its printed report."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.suite import run


def main() -> int:
    """Run it; 1 when the audit found anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="of injections (600)")
    parser.add_argument("--seed", type=int, help="of every choice; default a random one")
    parser.add_argument("--keep", action="store_true", help="keep the directory, with all logs")
    asked = parser.parse_args()
    seed = random.randrange(1_000_000) if asked.seed is None else asked.seed
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory = Path(tempfile.mkdtemp(prefix="df-", dir="/tmp"))
    directory.chmod(0o711)
    print(f"seed {seed}, {asked.seconds:.0f} s, in {directory}", flush=True)
    began = time.monotonic()

    def say(words: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {words}", flush=True)

    report = run(directory, seconds=asked.seconds, seed=seed, say=say)
    print(report.words())
    if asked.keep or report.findings:
        print(f"logs are in {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
