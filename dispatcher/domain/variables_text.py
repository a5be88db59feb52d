"""Variables as a text: JSON or YAML, as clients of the dialect send and expect them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import yaml


def read_variables(text: str) -> dict[str, Any]:
    """The mapping that a text of variables holds; an empty text is an empty one.

    Raises:
        ValueError: neither JSON nor YAML, or no mapping.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:
        value = _from_yaml(text)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("a mapping is required, as JSON or YAML")
    return value


def _from_yaml(text: str) -> Any:
    try:
        if any(isinstance(each, yaml.AliasEvent) for each in yaml.parse(text, yaml.CSafeLoader)):
            # a few lines of them can stand for gigabytes
            raise ValueError("YAML aliases are not allowed")
        return _plain(yaml.load(text, yaml.CSafeLoader))
    except yaml.YAMLError as error:
        words = " ".join(str(error).split())
        raise ValueError(f"neither JSON nor YAML: {words}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _plain(value: Any) -> Any:
    """YAML has dates, which JSON has not: they become text."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, date | datetime) else value


def show_variables(variables: Mapping[str, Any]) -> str:
    """Variables as the text of an answer."""
    return json.dumps(dict(variables), ensure_ascii=False)
