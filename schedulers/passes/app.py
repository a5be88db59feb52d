"""Entry points: ``python -m schedulers.passes.app control | beat | pass MANAGER…``."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from dispatcher import settings as settings_module
from dispatcher.errors import ConfigurationError

_USAGE = "usage: python -m schedulers.passes.app control | beat | pass MANAGER…"


def main(arguments: Sequence[str]) -> int:
    """Run a role; the exit code. A setting that is not fit is one line and code 2."""
    try:
        settings = settings_module.load()
        match list(arguments):
            case ["control"]:
                return _control(settings)
            case ["beat"]:
                return int(importlib.import_module("schedulers.passes.beat").run(settings))
            case ["pass", *managers] if managers:
                module = importlib.import_module("schedulers.passes.single_pass")
                return int(module.run(settings, managers))
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    print(_USAGE, file=sys.stderr)
    return 2


def _control(settings: settings_module.Settings) -> int:
    """The metrics' directory must be known before anything imports ``dispatcher.metrics``.

    That is why this module imports nothing else at its top.
    """
    paths = importlib.import_module("schedulers.passes.metrics_directory")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(paths.make(settings))
    return int(importlib.import_module("schedulers.passes.control").run(settings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
