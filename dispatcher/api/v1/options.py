"""What v1 is told: our settings, and below them those of an old ``config.yaml`` that still mean something."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from dispatcher import logs
from dispatcher.domain.runner_config import TAKEN, value_problem
from dispatcher.errors import ConfigurationError
from dispatcher.settings import Settings

log = logs.get(__name__)

DEFAULT_SSH_TIMEOUT: Final = 2.0


@dataclass(frozen=True)
class Options:
    """How v1 is served.

    Attributes:
        root: the root directory.
        port: a further port of the API; None: only the ordinary one.
        ssh_key: private key of runs and checks.
        ssh_checks: whether a host is logged into before it is added.
        ssh_timeout: seconds.
        target_user: account on the hosts; empty: the inventory's, else the service's own.
    """

    root: Path
    port: int | None
    ssh_key: Path
    ssh_checks: bool
    ssh_timeout: float
    target_user: str


def options_of(settings: Settings) -> Options | None:
    """The options; None when v1 is off.

    Raises:
        ConfigurationError: the old configuration cannot be read, or one of its values is wrong.
    """
    if not (settings.v1 or settings.v1_root or settings.v1_config):
        return None
    old = _read_old(settings.v1_config) if settings.v1_config else {}
    root = settings.v1_root or Path(
        old.get("playbooks_root_dir", settings.data_dir / "runner-service")
    )
    key = settings.v1_ssh_key or Path(old.get("ssh_private_key", root / "env" / "ssh_key"))
    return Options(
        root=root.absolute(),
        port=old.get("port") if settings.v1_port is None else settings.v1_port,
        ssh_key=key.absolute(),
        ssh_checks=_first(settings.v1_ssh_checks, old.get("ssh_checks"), True),
        ssh_timeout=float(
            _first(settings.v1_ssh_timeout, old.get("ssh_timeout"), DEFAULT_SSH_TIMEOUT)
        ),
        target_user=_first(settings.v1_target_user, old.get("target_user"), ""),
    )


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def _read_old(path: Path) -> dict[str, Any]:
    """The keys that are taken; the names of the others go to the log, never their values."""
    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"DISPATCHER_V1_CONFIG: {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise ConfigurationError(f"DISPATCHER_V1_CONFIG: {path}: not YAML") from None
    document = {} if document is None else document
    if not isinstance(document, dict):
        raise ConfigurationError(f"DISPATCHER_V1_CONFIG: {path}: not a mapping")
    ignored = sorted(str(name) for name in document if name not in TAKEN)
    if ignored:
        log.warning("old_settings_ignored", names=ignored, file=str(path))
    taken = {name: value for name, value in document.items() if name in TAKEN}
    for name, value in taken.items():
        problem = value_problem(name, value)
        if problem is not None:
            raise ConfigurationError(f"DISPATCHER_V1_CONFIG: {path}: {name}: {problem}")
    return taken
