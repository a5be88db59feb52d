"""An old ``config.yaml`` of ansible-runner-service: what is taken of it, what is not, what was dangerous."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

#: Keys that are taken → the setting that is the same, and the kinds of value it has.
TAKEN: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "playbooks_root_dir": ("V1_ROOT", (str,)),
    "ssh_private_key": ("V1_SSH_KEY", (str,)),
    "ssh_checks": ("V1_SSH_CHECKS", (bool,)),
    "ssh_timeout": ("V1_SSH_TIMEOUT", (int, float)),
    "target_user": ("V1_TARGET_USER", (str,)),
    "port": ("V1_PORT", (int,)),
}
_NOT_NEEDED: Final[Mapping[str, str]] = {
    "runner_cache_size": "every run is kept in the database, whatever their number",
    "event_cache_size": "events are read from the database",
    "event_threads": "events are read from the database",
    "artifacts_remove_age": "old artifact directories are read, and never removed",
    "artifacts_remove_frequency": "old artifact directories are read, and never removed",
    "ip_address": "the API listens on loopback: DISPATCHER_API_HOST, with DISPATCHER_V1_AUTH",
    "logging_conf": "logs go to stderr: DISPATCHER_LOG_LEVEL, DISPATCHER_LOG_FORMAT",
    "log_path": "logs go to stderr: DISPATCHER_LOG_LEVEL, DISPATCHER_LOG_FORMAT",
    "loglevel": "DISPATCHER_LOG_LEVEL",
    "cert_expiration": "certificates are made elsewhere: DISPATCHER_V1_TLS_CERT",
    "passwords": "there is no log-in: DISPATCHER_V1_AUTH=token, `dispatcher token create`",
    "token_secret": "there is no log-in: DISPATCHER_V1_AUTH=token, `dispatcher token create`",
    "token_hours": "there is no log-in: DISPATCHER_V1_AUTH=token, `dispatcher token create`",
    "svctoken": "there is no log-in: DISPATCHER_V1_AUTH=token, `dispatcher token create`",
}


@dataclass(frozen=True)
class Judgment:
    """What becomes of one key.

    Attributes:
        verdict: ``taken``, ``ignored``, ``dangerous`` (ignored, and good that it is) or ``wrong``.
        words: the setting with its value, or why.
    """

    key: str
    verdict: str
    words: str


def judge(document: Mapping[str, Any]) -> list[Judgment]:
    """What becomes of each key, in their order. Values of keys that are not taken are not shown."""
    return [_judge(str(key), value) for key, value in document.items()]


def _judge(key: str, value: Any) -> Judgment:
    if key in TAKEN:
        problem = value_problem(key, value)
        setting = f"DISPATCHER_{TAKEN[key][0]}"
        if problem is not None:
            return Judgment(key, "wrong", f"{setting}: {problem}")
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        return Judgment(key, "taken", f"{setting}={shown}")
    danger = _danger(key, value)
    if danger is not None:
        return Judgment(key, "dangerous", danger)
    return Judgment(key, "ignored", _NOT_NEEDED.get(key, "means nothing here"))


def value_problem(key: str, value: Any) -> str | None:
    """What is wrong with the value of a key that is taken."""
    kinds = TAKEN[key][1]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        return "wrong kind of value"
    number: Any = value
    if key == "port" and not 0 <= number <= 65535:
        return "0 to 65535"
    if key == "ssh_timeout" and not 0.1 <= number <= 60:
        return "0.1 to 60 seconds"
    return None


def _danger(key: str, value: Any) -> str | None:
    if key == "debug" and value:
        return "opened a debugger that runs any code; there is none here"
    if key == "ip_address" and value == "0.0.0.0":
        return "served everybody without asking who they are; here loopback only, unless DISPATCHER_V1_AUTH is set"
    if key == "artifacts_remove_age" and value == 0:
        return "removed every run, also those that ran; here nothing is removed"
    if key in ("passwords", "token_secret", "svctoken"):
        return f"a secret in a file; {_NOT_NEEDED[key]}"
    return None
