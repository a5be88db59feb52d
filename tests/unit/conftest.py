"""Unit tests are quick and alone: few examples each, slow is not wrong, and no sockets."""

from __future__ import annotations

import socket

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "shared machine",
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("shared machine")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit test that opens a connection belongs elsewhere. Event loops' own pairs are no network."""

    def refuse(self: socket.socket, *_: object) -> None:
        raise AssertionError("a unit test connects to something")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "bind", refuse)
