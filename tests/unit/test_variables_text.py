"""Variables as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from dispatcher.domain.variables_text import read_variables, show_variables


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("---\n", {}),
        ("{}", {}),
        ('{"a": 1, "b": [true, null]}', {"a": 1, "b": [True, None]}),
        ("a: 1\nb:\n  - x\n", {"a": 1, "b": ["x"]}),
        ("day: 2026-01-31\n", {"day": "2026-01-31"}),
    ],
)
def test_json_and_yaml_are_read(text: str, found: dict[str, Any]) -> None:
    assert read_variables(text) == found
    assert read_variables(show_variables(found)) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "a mapping is required"),
        ("a", "a mapping is required"),
        ("a: b: c", "line 1"),
        ("a: &x 1\nb: *x\n", "line 2: aliases are not allowed"),
        ("a: " + "[" * 100, "line 1: nested too deeply"),
        ("[" * 100_000, "nest"),
        ("a: !vault x", "line 1"),
        ("a: !!python/object:os.system x", "line 1"),
        ("x" * 1_000_001, "at most"),
        ("a: \x07", "neither JSON nor YAML"),
    ],
)
def test_anything_else_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ValueError) as refused:
        read_variables(text)
    assert words in str(refused.value)
