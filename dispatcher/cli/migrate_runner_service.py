"""``dispatcher migrate-runner-service``: what becomes of an old service's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from dispatcher.cli.output import say
from dispatcher.domain.runner_config import judge
from dispatcher.errors import ConfigurationError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("migrate-runner-service")(migrate_runner_service)


def migrate_runner_service(
    config: Annotated[
        Path, typer.Option("--config", metavar="OLD.yaml", help="The old service's config.yaml.")
    ],
) -> None:
    """Say what is taken of an ansible-runner-service's configuration, what is not, what was dangerous.

    Nothing is changed. DISPATCHER_V1_CONFIG=OLD.yaml takes it as it is.
    """
    try:
        document = yaml.safe_load(config.read_text("utf-8")) or {}
    except OSError as error:
        raise ConfigurationError(f"{config}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise ConfigurationError(f"{config}: not YAML") from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"{config}: not a mapping")
    for found in judge(document):
        say(f"{found.verdict:<10} {found.key:<26} {found.words}")
