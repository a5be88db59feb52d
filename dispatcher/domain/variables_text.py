"""Variables as people write them: a text in JSON or YAML that holds one mapping."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import yaml

from dispatcher.domain.launch_checks import MOST_VARIABLE_BYTES

_DEEPEST: Final = 64


class _Loader(yaml.CSafeLoader):
    """Safe, and what looks like a time stays a text: JSON has no times."""


def _as_text(loader: _Loader, node: yaml.ScalarNode) -> Any:
    return loader.construct_scalar(node)


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _as_text)


def read_variables(text: str) -> dict[str, Any]:
    """The mapping in a text; an empty one holds an empty mapping.

    Raises:
        ValueError: not JSON nor YAML, or no mapping; says where.
    """
    if len(text) > MOST_VARIABLE_BYTES:
        raise ValueError(f"at most {MOST_VARIABLE_BYTES} characters")
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:
        found = _read_yaml(text)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError("a mapping is required")
    return found


def _read_yaml(text: str) -> Any:
    try:
        _check_events(text)
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f": line {error.problem_mark.line + 1}"
        words = f": {error.problem}" if error.problem else ""
        raise ValueError(f"neither JSON nor YAML{line}{words}") from None
    except yaml.YAMLError:
        raise ValueError("neither JSON nor YAML") from None


def _check_events(text: str) -> None:
    """Refuse what would grow: an alias may stand for a thousand others, each for a thousand more."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        problem = None
        if isinstance(event, yaml.AliasEvent):
            problem = "aliases are not allowed"
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            problem = "nested too deeply" if depth > _DEEPEST else None
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if problem is not None:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise ValueError(f"line {line}: {problem}")


def show_variables(variables: Mapping[str, Any]) -> str:
    """Variables as the text of an answer."""
    return json.dumps(dict(variables), ensure_ascii=False)
