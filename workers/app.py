"""Entry points of a worker node: ``python -m workers.app worker | agent | celery``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from dispatcher import settings as settings_module
from dispatcher.errors import ConfigurationError
from workers.agent import run_agent
from workers.entry_points import run_celery
from workers.parent import run_parent

NOT_FIT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one process of a node; settings come from the environment.

    Returns:
        The exit code; 2 with one line on stderr for settings or a machine that is not fit.
    """
    parser = argparse.ArgumentParser(prog="python -m workers.app", description=__doc__)
    parser.add_argument("role", choices=("worker", "agent", "celery"))
    parser.add_argument("--parent", type=int, help="pid of the worker that started this process")
    asked = parser.parse_args(arguments)
    try:
        settings = settings_module.load()
        if asked.role == "worker":
            return run_parent(settings)
        if asked.role == "agent":
            return run_agent(settings, parent=asked.parent)
        return run_celery(settings, parent=asked.parent)
    except ConfigurationError as error:
        print(f"dispatcher: {error}", file=sys.stderr)
        return NOT_FIT


if __name__ == "__main__":
    sys.exit(main())
