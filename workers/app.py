"""Entry points of a worker node: ``python -m workers.app worker | agent | celery``."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Final

from dispatcher import settings as settings_module
from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings

NOT_FIT: Final = 2
#: Each role's module is imported by that role alone: the parent stays small, and starts at once.
_ROLES: Final = {
    "worker": "workers.parent",
    "agent": "workers.agent",
    "celery": "workers.entry_points",
}

Main = Callable[[Settings, int | None], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one process of a node; settings come from the environment.

    Returns:
        The exit code; 2 with one line on stderr for settings or a machine that is not fit.
    """
    parser = argparse.ArgumentParser(prog="python -m workers.app", description=__doc__)
    parser.add_argument("role", choices=tuple(_ROLES))
    parser.add_argument("--parent", type=int, help="pid of the worker that started this process")
    asked = parser.parse_args(arguments)
    try:
        settings = settings_module.load()
        run: Main = importlib.import_module(_ROLES[asked.role]).run
        return run(settings, asked.parent)
    except ConfigurationError as error:
        print(f"dispatcher: {error}", file=sys.stderr)
        return NOT_FIT


if __name__ == "__main__":
    sys.exit(main())
