"""The nginx configuration and the systemd unit that stand in for the old service's, against the code."""

from __future__ import annotations

import configparser
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crossplane
import typer.main

from dispatcher.cli.main import make_app
from dispatcher.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
NGINX = ROOT / "docker/nginx/runner-service.conf"
UNIT = ROOT / "docker/systemd/ansible-dispatcher.service"
PAGE = (ROOT / "docs/api_v1.md").read_text()


def directives(block: list[dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Every directive, those inside others too."""
    for each in block:
        yield each["directive"], each["args"]
        yield from directives(each.get("block", []))


def parsed() -> list[tuple[str, list[str]]]:
    # as it is read from conf.d: inside of http
    given = crossplane.parse(str(NGINX), check_ctx=False, strict=True, catch_errors=True)
    assert given["status"] == "ok", given["errors"]
    return list(directives(given["config"][0]["parsed"]))


def test_nginx_asks_for_client_certificates_at_the_old_ports() -> None:
    found = parsed()
    assert [args for name, args in found if name == "listen"] == [
        ["5001", "ssl"],
        ["50001", "ssl"],
    ]
    assert ("ssl_verify_client", ["on"]) in found
    assert any(name == "ssl_client_certificate" for name, _ in found)


def test_nginx_says_what_v1_looks_for_and_reaches_the_api() -> None:
    found = parsed()
    header = Settings.model_fields["v1_certificate_header"].default
    assert ("proxy_set_header", [header, "$ssl_client_verify"]) in found
    port = Settings.model_fields["api_port"].default
    assert ("server", [f"127.0.0.1:{port}"]) in found
    assert "127.0.0.1" in Settings.model_fields["v1_trusted_proxies"].default.split(",")


def unit() -> configparser.ConfigParser:
    # a key may come several times
    lines = UNIT.read_text().replace("Environment=", "Environment_=")
    numbered = re.sub(
        r"Environment_=", lambda m, n=iter(range(99)): f"Environment{next(n)}=", lines
    )
    read = configparser.ConfigParser(interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read_string(numbered)
    return read


def test_commands_of_the_unit_are_some_that_dispatcher_takes() -> None:
    group: Any = typer.main.get_command(make_app())
    for key in ("ExecStart", "ExecStop"):
        program, name, *rest = shlex.split(unit()["Service"][key])
        assert Path(program).name == "dispatcher"
        assert group.commands[name].make_context(name, rest).info_name == name


def test_variables_in_both_files_and_on_the_page_are_settings() -> None:
    names = set(re.findall(rf"\b{PREFIX}[A-Z0-9_]+\b", UNIT.read_text() + NGINX.read_text() + PAGE))
    assert f"{PREFIX}V1_CONFIG" in names
    unknown = {n for n in names if n.removeprefix(PREFIX).lower() not in Settings.model_fields}
    assert not unknown


def test_the_unit_is_not_root_and_keeps_its_state() -> None:
    service = unit()["Service"]
    assert service["User"] != "root"
    assert f"/var/lib/{service['StateDirectory']}" in UNIT.read_text()
