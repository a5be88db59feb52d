"""Settings: precedence, and errors that name what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatcher import settings
from dispatcher.errors import ConfigurationError


def test_environment_wins_over_file_and_options_over_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "dispatcher.toml"
    file.write_text("api_port = 1\nheartbeat = 2.0\nstart_limit = 7\n")
    monkeypatch.setenv("DISPATCHER_CONFIG_FILE", str(file))
    monkeypatch.setenv("DISPATCHER_API_PORT", "2")
    loaded = settings.load(heartbeat=3.0, node_name=None)
    assert (loaded.api_port, loaded.heartbeat, loaded.start_limit) == (2, 3.0, 7)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("DISPATCHER_NODE_NMAE", "x", "DISPATCHER_NODE_NMAE: unknown setting"),
        ("DISPATCHER_API_PORT", "many", "DISPATCHER_API_PORT: "),
        (
            "DISPATCHER_DATABASE_URL",
            "mysql://x",
            "DISPATCHER_DATABASE_URL: must start with postgresql://",
        ),
        (
            "DISPATCHER_BROKER_URL",
            "http://x",
            "DISPATCHER_BROKER_URL: must start with one of redis://",
        ),
        ("DISPATCHER_NODE_NAME", "a b", "DISPATCHER_NODE_NAME: letters, digits"),
        ("DISPATCHER_HEARTBEAT", "100", "heartbeat must be at most"),
        ("DISPATCHER_MANAGER_LEASE", "5", "must be below manager_lease"),
        ("DISPATCHER_MANAGER_GRACE", "8", "manager_statement_timeout must be below manager_grace"),
        ("dispatcher_heartbeet", "1", "dispatcher_heartbeet: unknown setting"),
        ("Dispatcher_Heartbeat", "soon", "DISPATCHER_HEARTBEAT: "),
        ("dispatcher_config_file", "/nowhere.toml", "/nowhere.toml: no such file"),
        ("DISPATCHER_BROKER_CA_FILE", "/nowhere.pem", "/nowhere.pem: No such file"),
        ("DISPATCHER_BROKER_CA_FILE", "/", "/: Is a directory"),
        ("DISPATCHER_BROKER_CA_FILE", __file__, "holds no certificates"),
        (
            "DISPATCHER_CONFIG_FILE",
            "/nowhere.toml",
            "DISPATCHER_CONFIG_FILE: /nowhere.toml: no such file",
        ),
    ],
)
def test_a_bad_setting_is_one_line_that_names_it(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        settings.load()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_name_in_the_file_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "dispatcher.toml"
    file.write_text("api_prot = 1\n")
    monkeypatch.setenv("DISPATCHER_CONFIG_FILE", str(file))
    with pytest.raises(
        ConfigurationError, match=r"DISPATCHER_API_PROT: unknown setting in .*dispatcher\.toml"
    ):
        settings.load()


@pytest.mark.parametrize(
    ("host", "name"),
    [("web01.example.com", "web01.example.com"), ("-odd name-", "odd-name"), ("x" * 80, "x" * 63)],
)
def test_a_node_without_a_name_is_named_after_the_host(
    monkeypatch: pytest.MonkeyPatch, host: str, name: str
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    assert settings.node_name(settings.load()) == name
    assert settings.node_name(settings.load(node_name="n2")) == "n2"


def test_a_host_name_that_no_node_can_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "---")
    with pytest.raises(ConfigurationError, match="DISPATCHER_NODE_NAME: not set"):
        settings.node_name(settings.load())


def test_a_child_process_gets_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    given = settings.environment(settings.load(api_port=81, node_name="n2"))
    assert given["DISPATCHER_API_PORT"] == "81"
    assert given["DISPATCHER_NODE_NAME"] == "n2"
    assert "DISPATCHER_HEARTBEAT" not in given
