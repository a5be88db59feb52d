"""``python -m dispatcher.cli.settings_page`` writes docs/settings.md from the settings' fields."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from dispatcher.settings import PREFIX, Settings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"

#: The first field of each section of ``Settings`` → its heading.
SECTIONS = {
    "config_file": "Where things are",
    "log_level": "Logs",
    "api_host": "API, health and metrics",
    "manager_period": "Managers",
    "node_name": "Nodes",
    "v1": "REST v1",
    "embedded_user": "Embedded servers",
}
_COMPUTED = {"data_dir": "`/var/lib/dispatcher` for root, else `~/.local/share/dispatcher`"}
_WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false", Path: "path"}

_HEAD = f"""# Settings

<!-- Written by `python -m dispatcher.cli.settings_page`; a test compares it with the code. -->

Every setting is an environment variable `{PREFIX}<NAME>`. `{PREFIX}CONFIG_FILE` names a TOML file
with the same settings by lower-case name (`heartbeat = 2.5`). A command-line option wins over the
environment, and that over the file. An unknown name or a bad value is one line that names it, and
exit code 2. Durations are in seconds.
"""


def render() -> str:
    """The page."""
    return "\n".join([_HEAD.rstrip("\n"), *_lines()]) + "\n"


def _lines() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        if name in SECTIONS:
            yield from (f"\n## {SECTIONS[name]}\n", "| variable | value | default | meaning |")
            yield "|---|---|---|---|"
        cells = (f"`{PREFIX}{name.upper()}`", _value(field), _default(name, field))
        yield f"| {' | '.join(cells)} | {field.description} |"


def _value(field: FieldInfo) -> str:
    """What may be given, in words."""
    words = _type(field.annotation)
    bounds = [
        f"{sign} {getattr(rule, name):,}"
        for rule in field.metadata
        for name, sign in (("ge", "≥"), ("le", "≤"))
        if hasattr(rule, name)
    ]
    return ", ".join([words, *bounds])


def _type(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return _type(next(arg for arg in get_args(annotation) if arg is not type(None)))
    return _WORDS[annotation]


def _default(name: str, field: FieldInfo) -> str:
    if name in _COMPUTED:
        return _COMPUTED[name]
    if field.default is None:
        return ""
    value = field.default
    if isinstance(value, float) and value == int(value):
        value = int(value)
    return f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(render())
