"""Filters and orders of lists, read from query parameters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from dispatcher.api.v2.filters import read_conditions, read_order
from dispatcher.db.job_queries import job_listing
from dispatcher.db.listing import Condition, Order
from dispatcher.errors import InvalidRequest

JOBS = job_listing()
_UUID = "b2b8d9c6-0c5e-4a55-9d57-111111111111"


@pytest.mark.parametrize(
    ("name", "value", "condition"),
    [
        ("name", "x", Condition("name", "exact", "x")),
        ("name", "null", Condition("name", "exact", "null")),
        ("id", "7", Condition("id", "exact", 7)),
        ("id", "-7", Condition("id", "exact", -7)),
        ("started", "null", Condition("started", "exact", None)),
        ("id__in", "1, 2,3", Condition("id", "in", [1, 2, 3])),
        ("name__icontains", "%_", Condition("name", "icontains", "%_")),
        ("not__name", "x", Condition("name", "exact", "x", negated=True)),
        ("or__name", "x", Condition("name", "exact", "x", alternative=True)),
        ("or__not__id__gt", "3", Condition("id", "gt", 3, negated=True, alternative=True)),
        ("failed", "True", Condition("failed", "exact", True)),
        ("finished__isnull", "0", Condition("finished", "isnull", False)),
        ("organization__name", "D", Condition("organization__name", "exact", "D")),
        ("organization__name__in", "D,E", Condition("organization__name", "in", ["D", "E"])),
        ("uuid", _UUID, Condition("uuid", "exact", UUID(_UUID))),
        ("elapsed__gte", "1.5", Condition("elapsed", "gte", 1.5)),
        (
            "created__gt",
            "2026-01-31T12:00:00Z",
            Condition("created", "gt", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ),
        (
            "created__gt",
            "2026-01-31T12:00:00 02:00",
            Condition(
                "created", "gt", datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
            ),
        ),
        (
            "created__lt",
            "2026-01-31",
            Condition("created", "lt", datetime(2026, 1, 31, tzinfo=UTC)),
        ),
    ],
)
def test_a_parameter_becomes_a_condition(name: str, value: str, condition: Condition) -> None:
    assert read_conditions(JOBS, [(name, value)]) == [condition]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("nope", "1", "unknown filter"),
        ("nope__gt", "1", "unknown filter"),
        ("name__regex", "x", "unknown lookup"),
        ("name__", "x", "unknown lookup"),
        ("__name", "x", "unknown filter"),
        ("not__or__name", "x", "unknown filter"),
        ("failed__gt", "true", "makes no sense"),
        ("id__contains", "1", "makes no sense"),
        ("id", "x", "whole number"),
        ("id", "1_000", "whole number"),
        ("id", "١", "whole number"),
        ("id", "9223372036854775808", "out of range"),
        ("id", "9" * 50, "whole number"),
        ("id__in", "1,", "whole number"),
        ("id__in", ",".join(["1"] * 1001), "more than"),
        ("failed", "maybe", "neither true nor false"),
        ("finished__isnull", "x", "neither"),
        ("created__gt", "yesterday", "not a time"),
        ("created__gt", "2026-13-01T00:00:00Z", "not a time"),
        ("uuid", "x", "not a uuid"),
        ("elapsed__gt", "nan", "finite"),
        ("elapsed__gt", "x", "not a number"),
        ("name", "a\0b", "NUL"),
        ("name__in", "a,\ud800", "surrogate"),
    ],
)
def test_what_is_not_known_is_refused_by_its_name(name: str, value: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_conditions(JOBS, [(name, value)])
    assert list(refused.value.fields) == [name]
    assert words in refused.value.fields[name][0]


def test_too_many_filters_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        read_conditions(JOBS, [("id", "1")] * 51)


def test_an_order_names_fields_and_directions() -> None:
    assert read_order(JOBS, "-finished, id") == [Order("finished", True), Order("id")]


@pytest.mark.parametrize("value", ["nope", "id,,name", "", "--id", "id desc"])
def test_an_unknown_order_is_refused(value: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_order(JOBS, value)
    assert list(refused.value.fields) == ["order_by"]
