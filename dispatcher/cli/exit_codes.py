"""What every command exits with; docs/cli.md shows the same table.

A command that waited for a job exits with the code of the job's outcome
(``dispatcher.domain.outcome``); the codes here are the command's own and never those of a job.
"""

from __future__ import annotations

from dispatcher.client.errors import NotAllowed, ServerUnreachable, UnexpectedAnswer
from dispatcher.client.pack import PackError
from dispatcher.errors import (
    ConfigurationError,
    Conflict,
    DispatcherError,
    InvalidRequest,
    NotCancelable,
    NotFound,
    Unavailable,
)

OK = 0
#: Bad options or settings, or the server refused the request: trying again changes nothing.
REFUSED = 2
#: No server, no answer in time, or a fault of the server: trying again may help.
SERVER = 4
#: A fault of this program; it prints a traceback.
FAULT = 70
#: Detached by Ctrl-C; the job goes on.
DETACHED = 130
#: Whoever read the output has gone; the job goes on.
OUTPUT_CLOSED = 141

_REFUSALS = (
    ConfigurationError,
    InvalidRequest,
    PackError,
    NotAllowed,
    NotFound,
    NotCancelable,
    Conflict,
)
_SERVER_FAULTS = (ServerUnreachable, Unavailable, UnexpectedAnswer)


def of_error(error: DispatcherError) -> int:
    """The exit code for an expected error."""
    if isinstance(error, _REFUSALS):
        return REFUSED
    return SERVER if isinstance(error, _SERVER_FAULTS) else FAULT
