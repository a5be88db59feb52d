"""JSON bodies: what PostgreSQL cannot hold is refused with the name of the field."""

from __future__ import annotations

import json

import pytest

from dispatcher.api.body import read_json
from dispatcher.errors import InvalidRequest


def test_ordinary_values_arrive_as_they_were_sent() -> None:
    value = {"a": [1, 2.5, None, True, "ü \U0001f600"], "b": {"c": {}}}
    assert read_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("raw", "field", "words"),
    [
        (b"", "body", "not JSON"),
        (b"{", "body", "not JSON"),
        (b"\xff\xfe{}", "body", "not JSON"),
        (b'{"a": NaN}', "a", "finite"),
        (b'{"a": [{"b": Infinity}]}', "a", "finite"),
        (b'{"a": 1e999}', "a", "finite"),
        (b'{"a": "x\\u0000y"}', "a", "NUL"),
        (b'{"a": {"\\u0000": 1}}', "a", "NUL"),
        (b'{"\\u0000": 1}', "body", "NUL"),
        (b'{"a": "\\ud800"}', "a", "surrogate"),
        (b'{"a": ["\\udc00"]}', "a", "surrogate"),
        (b'{"a": ' + b"9" * 5000 + b"}", "body", "not JSON"),
        (b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}", "a", "deeply"),
        (b"[" * 200_000, "body", "deeply"),
        (b"[" * 70 + b"]" * 70, "body", "deeply"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_field(raw: bytes, field: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_json(raw)
    assert list(refused.value.fields) == [field]
    assert words in refused.value.fields[field][0]
