"""Which server a command talks to: the one that is set, or the embedded stack's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dispatcher import clock
from dispatcher.cli.output import say
from dispatcher.client.client import Client
from dispatcher.client.connection import Connection
from dispatcher.embedded.background import start_in_background, stop_stack
from dispatcher.embedded.state import StackState, running_stack
from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings

#: Seconds that a stack which somebody else starts has to become ready.
_READY_TIMEOUT = 60.0
#: Seconds that a call is repeated: for somebody who waits at a terminal, and for what must arrive.
_PATIENCE = 5.0
_LAUNCH_PATIENCE = 30.0


def connect(settings: Settings, *, may_start: bool = False) -> Client:
    """A client of the server that the settings name, or of the embedded stack.

    Args:
        may_start: for a launch: start the embedded stack, in the background, when there is
            neither; and be patient.

    Raises:
        ConfigurationError: there is no server, or the stack does not start.
    """
    # a working directory that changes must not move the data
    settings = settings.model_copy(update={"data_dir": settings.data_dir.absolute()})
    patience = _LAUNCH_PATIENCE if may_start else _PATIENCE
    if settings.url is not None:
        return Client(Connection(settings.url, settings.token, patience=patience))
    stack = running_stack(settings.data_dir)
    if stack is None and not may_start:
        raise ConfigurationError(
            "no server: set DISPATCHER_URL and DISPATCHER_TOKEN, or start one: dispatcher up"
        )
    if stack is None:
        _start_stack(settings)
        say("the embedded stack goes on in the background; dispatcher down stops it")
    stack = _ready_stack(settings)
    return Client(Connection(stack.api_url, settings.token or stack.token(), patience=patience))


@contextmanager
def serving(settings: Settings) -> Iterator[Client]:
    """As :func:`connect`; a stack that this started is stopped when the block ends."""
    starts = settings.url is None and running_stack(settings.data_dir) is None
    if starts:
        _start_stack(settings)
    try:
        with connect(settings, may_start=True) as client:
            yield client
    finally:
        if starts:
            say("stopping the embedded stack")
            stop_stack(settings.data_dir)


def _start_stack(settings: Settings) -> None:
    """Start the stack, or find that somebody else has meanwhile.

    Raises:
        ConfigurationError: it did not start.
    """
    say(f"no DISPATCHER_URL: starting the embedded stack on {settings.data_dir}")
    try:
        start_in_background(settings)
    except ConfigurationError:
        # of two that start it at once, the second fails and finds the first one's
        if running_stack(settings.data_dir) is None:
            raise


def _ready_stack(settings: Settings) -> StackState:
    """The running stack, once it is ready."""
    deadline = clock.monotonic() + _READY_TIMEOUT
    while True:
        stack = running_stack(settings.data_dir)
        if stack is None:
            raise ConfigurationError("the embedded stack has stopped; dispatcher up says why")
        if stack.phase == "stopping":
            raise ConfigurationError("the embedded stack is stopping; try again")
        if stack.phase == "ready":
            return stack
        if clock.monotonic() > deadline:
            raise ConfigurationError(f"the embedded stack was not ready in {_READY_TIMEOUT:g} s")
        clock.sleep(0.1)
