"""Variables as a text: JSON, YAML, and what is neither."""

from __future__ import annotations

import pytest

from dispatcher.domain.variables_text import read_variables, show_variables


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("", {}),
        ("---\n", {}),
        ("{}", {}),
        ('{"a": 1, "b": [true, null]}', {"a": 1, "b": [True, None]}),
        ("a: 1\nb: {c: ä}\n", {"a": 1, "b": {"c": "ä"}}),
        ("---\nday: 2026-01-31\n", {"day": "2026-01-31"}),
    ],
)
def test_a_text_of_variables_is_json_or_yaml(text: str, variables: object) -> None:
    assert read_variables(text) == variables
    assert read_variables(show_variables(read_variables(text))) == variables


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "a mapping is required"),
        ("a", "a mapping is required"),
        ("a: [", "neither JSON nor YAML"),
        ("a: &x [1]\nb: *x\n", "aliases are not allowed"),
        ("[" * 100_000, "nested too deeply"),
        ("a: !!python/object:os.system x", "neither JSON nor YAML"),
    ],
)
def test_a_text_that_holds_no_variables_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_variables(text)
