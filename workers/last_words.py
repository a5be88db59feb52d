"""What a run's own processes say when something breaks: never at the cost of what they do next.

``supervisor.log`` is on the disk that may be full, and an error that is raised while one is told
would take the place of what was to be done about it.
"""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress


def print_fault() -> None:
    """Print the exception that is being handled, if that is possible."""
    with suppress(OSError, ValueError):
        traceback.print_exc()
        sys.stderr.flush()
