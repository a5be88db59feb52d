"""The port of the stack's API: the one that was set, or the next free one."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from dispatcher import settings as settings_module
from dispatcher.embedded.ports import choose_port, url_of
from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings


@pytest.fixture
def taken() -> Iterator[int]:
    """A loopback port on which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def with_default_port(port: int) -> Settings:
    """Settings in which the port is a default, as 8052 is."""
    settings = settings_module.load()
    assert "api_port" not in settings.model_fields_set
    return settings.model_construct(
        _fields_set=set(), **(dict(settings) | {"api_port": port, "api_host": "127.0.0.1"})
    )


def test_a_default_port_that_is_taken_makes_room_for_the_next_free_one(taken: int) -> None:
    assert taken < choose_port(with_default_port(taken)) < taken + 100


def test_a_default_port_that_is_free_is_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    assert choose_port(with_default_port(port)) == port


def test_a_port_that_was_set_and_is_taken_is_an_error_that_names_it(taken: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"DISPATCHER_API_PORT: port {taken} on 127\.0"):
        choose_port(settings_module.load(api_port=taken))


def test_port_zero_takes_any_free_one() -> None:
    assert choose_port(settings_module.load(api_port=0)) > 0


def test_an_address_that_is_not_this_machines_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"DISPATCHER_API_HOST: cannot listen on 192\.0"):
        choose_port(settings_module.load(api_host="192.0.2.1"))


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:81"),
        ("0.0.0.0", "http://127.0.0.1:81"),
        ("::", "http://[::1]:81"),
        ("example.com", "http://example.com:81"),
    ],
)
def test_the_url_is_one_that_this_machine_can_call(host: str, url: str) -> None:
    assert url_of(host, 81) == url
