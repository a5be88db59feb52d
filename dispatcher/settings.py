"""Settings, read from ``DISPATCHER_*`` variables and an optional TOML file, checked once.

Nothing is read at import: every entry point calls :func:`load` and passes the result on.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import tomllib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from dispatcher import server_urls
from dispatcher.errors import ConfigurationError

PREFIX = "DISPATCHER_"
NODE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def default_data_dir() -> Path:
    """``/var/lib/dispatcher`` for root, else the XDG data directory of the user."""
    if os.geteuid() == 0:
        return Path("/var/lib/dispatcher")
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "dispatcher"


class Settings(BaseSettings):
    """All settings of all roles. Each field is ``DISPATCHER_<NAME>`` in the environment."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    # -- where things are
    config_file: Path | None = Field(
        None,
        description="TOML file with settings by lower-case name; the environment wins over it.",
    )
    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="Directory of this machine's state: run directories, content cache, embedded servers.",
    )
    database_url: str | None = Field(
        None,
        repr=False,
        description="PostgreSQL URL (`postgresql://user:password@host/name?sslmode=…`); several hosts as `host1:5432,host2:5432`. Without it, `dispatcher up` and `dispatcher run` use the embedded servers.",
    )
    broker_url: str | None = Field(
        None,
        repr=False,
        description="Broker URL: `redis://`, `rediss://`, `redis+socket://`, `sentinel://` or `amqp://`.",
    )
    broker_sentinel_master: str = Field(
        "dispatcher", description="Name of the master that Sentinel watches, for `sentinel://`."
    )
    broker_ca_file: Path | None = Field(
        None, description="CA certificate for `rediss://` and `amqps://`; without it the system's."
    )
    key_file: Path | None = Field(
        None,
        description="File with the cluster's key, one for all machines (made by `dispatcher up`); default `cluster.key` in the data directory.",
    )
    url: str | None = Field(
        None, description="Base URL of the server that the command line talks to."
    )
    token: str | None = Field(None, repr=False, description="API token of the command line.")

    # -- logs
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe log record that is written."
    )
    log_format: Literal["console", "json"] = Field("console", description="Form of log records.")

    # -- api
    api_host: str = Field(
        "127.0.0.1",
        description="Address the API listens on. Anything but loopback is refused until a token exists.",
    )
    api_port: int = Field(8052, ge=0, le=65535, description="Port of the API; 0 takes a free one.")
    api_pool_size: int = Field(
        10, ge=1, le=100, description="Database connections of one API process."
    )
    max_body_bytes: int = Field(
        2_000_000, ge=1_000, description="Largest request body, content uploads excepted."
    )
    max_bundle_bytes: int = Field(
        256_000_000, ge=1_000, description="Largest content bundle, compressed."
    )
    max_bundle_unpacked_bytes: int = Field(
        1_000_000_000, ge=1_000, description="Largest content bundle, unpacked."
    )
    metrics_host: str = Field(
        "127.0.0.1",
        description="Address on which beat, control and worker serve `/metrics`, `/healthz` and `/readyz`.",
    )
    beat_metrics_port: int = Field(
        0, ge=0, le=65535, description="Port for beat's health and metrics; 0: health file only."
    )
    control_metrics_port: int = Field(
        0, ge=0, le=65535, description="Port for control's health and metrics; 0: health file only."
    )
    worker_metrics_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port for the worker's health and metrics; 0: health file only.",
    )

    # -- managers (seconds)
    manager_period: float = Field(
        5.0, ge=0.2, le=300, description="Seconds between two triggers of each manager by beat."
    )
    # less than the 5 s of a tick, so that a trigger that comes early costs no whole tick
    recovery_period: float = Field(
        2.0, ge=0.2, le=300, description="Seconds between two triggers of recovery."
    )
    manager_timeout: float = Field(
        300.0,
        ge=1,
        description="Time budget of one pass; past it the pass stops and asks for another.",
    )
    manager_grace: float = Field(
        20.0,
        ge=1,
        description="Seconds past the budget after which the manager's process is killed.",
    )
    manager_lease: float = Field(
        20.0, ge=2, description="Seconds a manager's lease lives without renewal."
    )
    manager_statement_timeout: float = Field(
        8.0, ge=0.5, description="Longest SQL statement of a manager, in seconds."
    )
    manager_plan_timeout: float = Field(
        5.0, ge=0.5, description="Longest plan of one window, in seconds."
    )
    reserve_after: float = Field(
        60.0,
        ge=0,
        description="Seconds after which a job that is kept waiting is not overtaken any more on what it waits for.",
    )
    lock_cooldown: float = Field(
        30.0,
        ge=0,
        description="Seconds for which the exclusive host locks of a run that was stopped by force are kept after its end.",
    )
    start_limit: int = Field(0, ge=0, description="Most starts in one pass; 0: no limit.")
    pass_rows: int = Field(10_000, ge=100, description="Most pending jobs read in one pass.")
    submission_grace: float = Field(
        20.0, ge=1, description="Seconds a job stays waiting before its submission is repeated."
    )
    waiting_limit: float = Field(
        30.0,
        ge=2,
        description="Seconds a job stays waiting on a node that does not report it queued before it is returned.",
    )
    keep_jobs_days: float = Field(
        30.0,
        ge=0,
        description="Days for which finished jobs are kept, with their events and results; 0: for ever.",
    )
    max_strikes: int = Field(
        3, ge=1, description="Failed tries to handle one job in a pass before it is ended in error."
    )

    # -- nodes (seconds, where not said otherwise)
    node_name: str | None = Field(None, description="Name of this node; default the host name.")
    node_groups: str = Field(
        "default",
        description="Instance groups the node joins when it registers, separated by commas.",
    )
    node_capacity: int | None = Field(
        None, ge=0, description="Fixed capacity of this node; default computed from CPU and memory."
    )
    node_max_jobs: int = Field(200, ge=1, description="Most supervisors at once on this node.")
    capacity_adjustment: float = Field(
        1.0, ge=0, le=1, description="0: the smaller of CPU and memory capacity, 1: the larger."
    )
    heartbeat: float = Field(
        5.0, ge=0.2, description="Seconds between two renewals of the node's lease."
    )
    cancel_poll: float = Field(
        2.0,
        ge=0.1,
        le=2.0,
        description="Seconds between two looks for cancel flags and waiting rows.",
    )
    node_lost_after: float = Field(
        300.0, ge=10, description="Seconds without renewal after which a node counts as lost."
    )
    node_lost_margin: float = Field(
        30.0, ge=2, description="Seconds before that at which the node stops its own playbooks."
    )
    stop_policy: Literal["drain", "detach", "cancel"] = Field(
        "drain", description="What SIGTERM does to running playbooks of a worker."
    )
    drain_limit: float = Field(
        600.0,
        ge=0,
        description="Seconds that `drain` waits for running playbooks before it detaches.",
    )
    stop_grace: float = Field(
        10.0, ge=0.1, description="Seconds between SIGTERM and SIGKILL when a playbook is stopped."
    )
    idle_timeout: int = Field(
        0,
        ge=0,
        description="Seconds without output after which a playbook is stopped; 0: never. A run's own value wins.",
    )
    prompt_timeout: float = Field(
        5.0,
        ge=0.5,
        description="Seconds of silence after what looks like a prompt before the run ends as `waits_for_input`.",
    )
    spool_quota_bytes: int = Field(
        1_000_000_000,
        ge=1_000_000,
        description="Spool bytes of one run that are not stored yet at which its playbook is paused.",
    )
    scm_key_file: Path | None = Field(
        None,
        description="Private SSH key with which this node fetches projects by git; without one only what needs no key is reached.",
    )
    cache_bytes: int = Field(
        2_000_000_000, ge=10_000_000, description="Bound of the node's cache of unpacked bundles."
    )
    keep_run_directory: float = Field(
        600.0, ge=0, description="Seconds a finished run's spool and result stay on the node."
    )

    # -- REST v1, the drop-in for ansible-runner-service
    v1: bool = Field(
        False,
        description="Serve `/api/v1` as ansible-runner-service did (docs/api_v1.md); a root directory or an old configuration switches it on too.",
    )
    v1_root: Path | None = Field(
        None,
        description="Root directory with `project`, `inventory` and `env`, as the old service had it; default `runner-service` in the data directory.",
    )
    v1_config: Path | None = Field(
        None,
        description="The old service's `config.yaml`; what is set here wins over it.",
    )
    v1_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="A further port of the API, for clients that know the old one (5001; oVirt 50001).",
    )
    v1_auth: Literal["none", "token", "certificate"] = Field(
        "none",
        description="Who may call v1: on loopback everybody; a bearer token; whoever has a client certificate, checked by a trusted proxy or by v1's own port.",
    )
    v1_certificate_header: str = Field(
        "X-SSL-Client-Verify",
        description="Header in which a trusted proxy says `SUCCESS` for a valid client certificate.",
    )
    v1_trusted_proxies: str = Field(
        "127.0.0.1,::1",
        description="Addresses whose certificate header is believed, separated by commas.",
    )
    v1_tls_cert: Path | None = Field(
        None, description="Certificate (PEM, with its chain): v1's port speaks TLS."
    )
    v1_tls_key: Path | None = Field(None, description="Its private key, without a password.")
    v1_tls_client_ca: Path | None = Field(
        None,
        description="Certificate authorities of clients: who has no certificate of theirs is not let in at v1's port.",
    )
    v1_ssh_key: Path | None = Field(
        None,
        description="Private SSH key for v1's runs and checks; default `env/ssh_key` in the root directory.",
    )
    v1_ssh_checks: bool | None = Field(
        None, description="Log into a host by SSH before v1 adds it to the inventory; default true."
    )
    v1_ssh_timeout: float | None = Field(
        None,
        ge=0.1,
        le=60,
        description="Seconds that such a check waits, for the connection and again for the log-in; default 2.",
    )
    v1_target_user: str | None = Field(
        None,
        description="Account that v1's runs and checks log in as; default the inventory's, else the service's own.",
    )

    # -- embedded servers
    embedded_user: str = Field(
        "nobody",
        description="Account of the embedded PostgreSQL when `dispatcher up` runs as root.",
    )

    @field_validator("database_url")
    @classmethod
    def _database_form(cls, value: str | None) -> str | None:
        if value is not None:
            server_urls.database_url(value)
        return value

    @field_validator("broker_url")
    @classmethod
    def _broker_form(cls, value: str | None) -> str | None:
        if value is not None:
            server_urls.check_broker_url(value)
        return value

    @field_validator("broker_ca_file")
    @classmethod
    def _certificates(cls, value: Path | None) -> Path | None:
        if value is None:
            return None
        try:
            ssl.create_default_context(cafile=value)
        except ssl.SSLError:
            raise ValueError(f"{value}: holds no certificates (PEM)") from None
        except OSError as error:
            raise ValueError(f"{value}: {error.strerror}") from None
        return value

    @field_validator("node_name")
    @classmethod
    def _node_name_form(cls, value: str | None) -> str | None:
        if value is not None and not NODE_NAME.fullmatch(value):
            raise ValueError(
                "letters, digits, '.', '_' and '-', at most 63, first and last a letter or digit"
            )
        return value

    @model_validator(mode="after")
    def _bounds(self) -> Settings:
        """The relations that fencing and leases rest on (docs/protocols.md 2.1 and 4.7)."""
        if self.manager_statement_timeout + self.manager_plan_timeout >= self.manager_lease:
            raise ValueError(
                "manager_statement_timeout + manager_plan_timeout must be below manager_lease"
            )
        if self.manager_statement_timeout >= self.manager_grace:
            # a pass that is over its budget ends with the statement it is in
            raise ValueError("manager_statement_timeout must be below manager_grace")
        if self.heartbeat > (self.node_lost_after - self.node_lost_margin) / 10:
            raise ValueError("heartbeat must be at most (node_lost_after - node_lost_margin) / 10")
        return self

    @cached_property
    def fencing_seconds(self) -> float:
        """Seconds after a renewal was sent at which the node stops its own playbooks."""
        return self.node_lost_after - self.node_lost_margin

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Options of the command line win over the environment, and that over the file."""
        path = _config_file(init_settings())
        if path is None:
            return (init_settings, env_settings)
        file_settings = TomlConfigSettingsSource(settings_cls, toml_file=Path(path))
        return (init_settings, env_settings, file_settings)


def load(**overrides: Any) -> Settings:
    """Read and check the settings.

    Args:
        overrides: values from command-line options, by setting name; ``None`` is passed over.

    Raises:
        ConfigurationError: one line that names the unknown or bad setting.
    """
    for name in os.environ:
        # in any letter case, as the known ones are read
        known = name[len(PREFIX) :].lower() in Settings.model_fields
        if name.upper().startswith(PREFIX) and not known:
            raise ConfigurationError(f"{name}: unknown setting (docs/settings.md lists them)")
    path = _config_file(overrides)
    if path is not None and not Path(path).is_file():
        raise ConfigurationError(f"{PREFIX}CONFIG_FILE: {path}: no such file")
    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            message = f"unknown setting in {path} (docs/settings.md lists them)"
        prefix = f"{PREFIX}{name.upper()}: " if name else f"{PREFIX}*: "
        raise ConfigurationError(f"{prefix}{message}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"{PREFIX}CONFIG_FILE: {path}: {error.strerror}") from None


def _config_file(overrides: Mapping[str, Any]) -> Any:
    """The settings file: the option's, else the variable's, in any letter case."""
    given = {name.upper(): value for name, value in os.environ.items()}
    return overrides.get("config_file") or given.get(f"{PREFIX}CONFIG_FILE")


def node_name(settings: Settings) -> str:
    """The name of this machine's node: the configured one, else the host's.

    Raises:
        ConfigurationError: the host's name cannot be a node's name.
    """
    if settings.node_name is not None:
        return settings.node_name
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:63].strip("-._")
    if not NODE_NAME.fullmatch(name):
        raise ConfigurationError("DISPATCHER_NODE_NAME: not set, and the host has no usable name")
    return name


def environment(settings: Settings) -> dict[str, str]:
    """The settings that were given, as variables for a child process."""
    given = settings.model_dump(mode="json", exclude_unset=True)
    return {f"{PREFIX}{name.upper()}": str(v) for name, v in given.items() if v is not None}
