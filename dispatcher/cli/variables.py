"""Extra variables as `ansible-playbook -e` takes them, and secret ones from the environment."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

import yaml

from dispatcher.errors import InvalidRequest

_FORMS = "must be key=value, @file, or a JSON or YAML mapping"


def read_extra_vars(items: Iterable[str]) -> dict[str, Any]:
    """Merge what `-e` was given, later over earlier.

    Args:
        items: each ``key=value …`` (quotes as in a shell, values stay text), ``@file`` (YAML or
            JSON) or a mapping in JSON or YAML.

    Raises:
        InvalidRequest: names the item or file.
    """
    merged: dict[str, Any] = {}
    for item in items:
        text = item.strip()
        if text.startswith("@"):
            merged |= _from_file(Path(text[1:]).expanduser())
        elif text.startswith(("{", "[")):
            merged |= _mapping(text, "-e")
        else:
            merged |= _pairs(text)
    return merged


def read_secret_vars(names: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The values of these variables in the environment; they are named nowhere else.

    Raises:
        InvalidRequest: a name without a variable of that name.
    """
    found: dict[str, str] = {}
    for name in names:
        if "=" in name:
            # what follows is likely the secret: it is not repeated
            problem = "takes a name only; the value is read from the environment variable so named"
            raise InvalidRequest({"--secret-var": problem})
        if name not in environment:
            raise InvalidRequest({"--secret-var": f"no environment variable {name}"})
        found[name] = environment[name]
    return found


def _from_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InvalidRequest({"-e": f"@{path}: {error.strerror}"}) from None
    except UnicodeDecodeError:
        raise InvalidRequest({"-e": f"@{path}: is not UTF-8"}) from None
    if text.startswith("$ANSIBLE_VAULT"):
        raise InvalidRequest(
            {"-e": f"@{path}: is encrypted; decrypt it first, or pass --secret-var"}
        )
    return _mapping(text, f"-e @{path}")


def _mapping(text: str, where: str) -> dict[str, Any]:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        words = " ".join(str(error).split())
        raise InvalidRequest({where: f"cannot be read: {words}"}) from None
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise InvalidRequest({where: _FORMS})
    return {name: _as_json(inner) for name, inner in value.items()}


def _as_json(value: Any) -> Any:
    """YAML has dates and keys that JSON has not: both become text."""
    if isinstance(value, dict):
        return {str(name): _as_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_as_json(inner) for inner in value]
    return value.isoformat() if isinstance(value, date | datetime) else value


def _pairs(text: str) -> dict[str, str]:
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = lexer.escape = ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise InvalidRequest({"-e": f"{str(error).lower()}: {_FORMS}"}) from None
    pairs: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            # only the part before a "=" may be shown: the rest may be a secret
            raise InvalidRequest({"-e": f"{word!r}: {_FORMS}" if not equals else _FORMS})
        pairs[name] = value
    return pairs
