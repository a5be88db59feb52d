"""Masking: a secret is gone in every form in which output and events can hold it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.masking import MASK, Masker, secret_values

KEY = "-----BEGIN KEY-----\nabc/def+ghi==\n\tzz\n-----END KEY-----\n"


def test_every_leaf_of_secret_variables_is_a_secret() -> None:
    variables = {"a": "one", "b": {"c": ["two", 33333, True, None]}, "d": 1.25}
    assert sorted(secret_values(variables)) == ["1.25", "33333", "one", "two"]


@pytest.mark.parametrize(
    "shown",
    [
        KEY,
        KEY.replace("\n", "\r\n"),
        json.dumps({"msg": KEY}),
        json.dumps(json.dumps({"msg": KEY})),
        repr({"msg": KEY}),
        "    abc/def+ghi==",
    ],
)
def test_a_secret_of_many_lines_is_gone(shown: str) -> None:
    masked = Masker([KEY]).text(shown)
    assert MASK in masked
    assert "abc/def" not in masked
    assert "BEGIN KEY" not in masked


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=3).filter(lambda t: t.strip()[2:])
)
def test_any_value_is_gone_from_text_json_and_python(secret: str) -> None:
    masker = Masker([secret])
    bare = secret.strip("\r\n")
    for shown in (secret, repr(bare), json.dumps(bare), json.dumps(bare, ensure_ascii=False)):
        assert masker.text(f"x {shown} y").count(bare) <= f"x {MASK} y".count(bare)
        assert masker.found_in(shown)


def test_the_longer_of_two_values_goes_first() -> None:
    assert Masker(["abc", "abcdef"]).text("abcdef abc") == f"{MASK} {MASK}"


def test_short_values_and_no_values_change_nothing() -> None:
    assert Masker(["ab", "", "  a "]).text("ab a") == "ab a"
    assert Masker([]).text("x") == "x"


def test_a_secret_number_is_masked_as_a_number() -> None:
    masker = Masker(["12345", "x1y"])
    assert (masker.number(12345), masker.number(123456)) == (MASK, 123456)
