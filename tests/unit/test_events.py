"""Events: what ansible-runner delivers becomes rows that PostgreSQL takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.events import MAX_EVENT_DATA, EventStream
from workers.masking import MASK, Masker


def stream(*secrets: str) -> EventStream:
    return EventStream(Masker(secrets))


def raw(
    event: str = "runner_on_ok", stdout: str = "", lines: int = 0, **data: Any
) -> dict[str, Any]:
    return {
        "uuid": "u",
        "parent_uuid": "p",
        "event": event,
        "created": "2026-01-02T03:04:05.000006+00:00",
        "stdout": stdout,
        "start_line": 10,
        "end_line": 10 + lines,
        "event_data": data,
    }


def data_of(events: EventStream, event: dict[str, Any]) -> Any:
    return json.loads(events.convert(event).row.event_data)


def test_the_fields_are_those_of_awx() -> None:
    row = stream().convert(raw(host="h", play="p", task="t", role="r", res={"changed": True})).row
    assert (row.counter, row.uuid, row.parent_uuid) == (1, "u", "p")
    assert (row.host_name, row.play, row.task, row.role) == ("h", "p", "t", "r")
    assert (row.changed, row.failed) == (True, False)
    assert row.created.isoformat() == "2026-01-02T03:04:05.000006+00:00"


@pytest.mark.parametrize(
    ("event", "failed"),
    [
        (raw("runner_on_failed"), True),
        (raw("runner_on_failed", ignore_errors=True), False),
        (raw("runner_item_on_failed"), True),
        (raw("runner_on_unreachable"), True),
        (raw("runner_on_skipped"), False),
        (raw("runner_retry"), False),
        (raw("error"), True),
        (raw("playbook_on_stats", failures={"a": 0}, dark={}), False),
        (raw("playbook_on_stats", failures={}, dark={"a": 1}), True),
    ],
)
def test_failures_are_those_of_awx(event: dict[str, Any], failed: bool) -> None:
    assert stream().convert(event).row.failed is failed


def test_a_recap_with_changes_is_changed() -> None:
    assert stream().convert(raw("playbook_on_stats", changed={"a": 1})).row.changed


def test_output_is_rebuilt_line_by_line() -> None:
    events = stream()
    pieces = [
        raw("playbook_on_start"),
        raw("a", "\r\nPLAY [x]", 3),
        raw("b", "one\r\ntwo", 2),
        raw("verbose", "", 1),
        raw("verbose", "no end: ", 0),
        raw("c", "last", 1),
    ]
    rows = [events.convert(piece).row for piece in pieces]
    assert [(row.start_line, row.end_line) for row in rows] == [
        (0, 0),
        (0, 3),
        (3, 5),
        (5, 6),
        (6, 7),
        (7, 8),
    ]
    shown = "".join(row.stdout + "\n" for row in rows if row.end_line > row.start_line)
    assert shown.replace("\r", "") == "\nPLAY [x]\n\none\ntwo\n\nno end: \nlast\n"
    assert [row.counter for row in rows] == [1, 2, 3, 4, 5, 6]


@given(st.lists(st.tuples(st.text("ab\n", max_size=9), st.integers(0, 3)), max_size=8))
def test_lines_are_contiguous_and_exact(outputs: list[tuple[str, int]]) -> None:
    events, line = stream(), 0
    for text, extra in outputs:
        text = text.rstrip("\n")
        row = events.convert(raw("e", text, text.count("\n") + extra)).row
        assert row.start_line == line
        line = row.end_line
        held = len(row.stdout.split("\n")) if row.end_line > row.start_line else 0
        assert row.end_line - row.start_line == held
        assert held or not row.stdout


def test_nul_and_lone_surrogates_are_replaced_in_keys_and_values() -> None:
    event = raw(stdout="a\0b", lines=1, res={"k\0": ["\ud83d", {"x": "\udfff\0"}]}, host="h\ud800")
    row = stream().convert(event).row
    assert row.sanitized
    assert row.stdout == "a\ufffdb"
    assert row.host_name == "h\ufffd"
    assert json.loads(row.event_data)["res"] == {"k\ufffd": ["\ufffd", {"x": "\ufffd\ufffd"}]}


def test_astral_characters_and_an_escaped_nul_are_no_damage() -> None:
    row = (
        stream()
        .convert(raw(stdout="\U0001f600", lines=1, res={"a": "\U0001f600", "b": r"\u0000"}))
        .row
    )
    assert not row.sanitized
    assert json.loads(row.event_data)["res"] == {"a": "\U0001f600", "b": r"\u0000"}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_no_json_become_words(number: float) -> None:
    row = stream().convert(raw(res={"a": number})).row
    assert row.sanitized
    assert json.loads(row.event_data)["res"] == {"a": str(number)}


def test_secrets_are_masked_in_output_values_keys_and_numbers() -> None:
    events = stream("hunter22", "4711")
    event = raw(
        stdout='ok => {"msg": "hunter22"}',
        lines=1,
        task="say hunter22",
        res={"hunter22": "x hunter22", "pin": 4711, "other": 47110},
    )
    row = events.convert(event).row
    assert "hunter22" not in row.stdout + row.task + row.event_data
    assert data_of(events, event)["res"] == {MASK: f"x {MASK}", "pin": MASK, "other": 47110}
    assert not row.sanitized


def test_a_huge_result_is_left_out_with_its_size() -> None:
    big = {"stdout": "x" * 800_000, "changed": True, "rc": 0}
    row = stream().convert(raw(host="h", task="t", res=big, stdout="y" * 2_000_000, lines=1)).row
    data = json.loads(row.event_data)
    assert row.truncated
    assert row.changed
    assert data["host"] == "h"
    assert data["res"] == {"changed": True, "rc": 0, "_truncated": len(json.dumps(big))}
    assert len(row.stdout) == 2_000_000


def test_other_huge_data_is_left_out_too() -> None:
    row = stream().convert(raw(host="h", task_args="x" * 900_000)).row
    assert row.truncated
    assert len(row.event_data) < MAX_EVENT_DATA
    assert json.loads(row.event_data)["host"] == "h"


def test_a_result_that_ansible_runner_dropped_is_marked() -> None:
    row = stream().convert(raw("runner_on_ok", res={})).row
    assert row.truncated
    assert "_truncated" in json.loads(row.event_data)["res"]


def test_the_recap_is_whole_whatever_its_size() -> None:
    ok = {f"host-with-a-long-name-{n:06d}": 1 for n in range(40_000)}
    row = stream().convert(raw("playbook_on_stats", ok=ok)).row
    assert not row.truncated
    assert json.loads(row.event_data)["ok"] == ok


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.text(max_size=9),
        st.recursive(
            st.none() | st.text() | st.floats() | st.booleans(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=6,
        ),
    )
)
def test_any_data_becomes_json_that_jsonb_takes(data: dict[str, Any]) -> None:
    text = stream("secret").convert(raw(**{"x": data})).row.event_data
    text.encode()
    assert "\\u0000" not in text.replace("\\\\", "")
    json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    "event", [{}, {"event": None, "event_data": "x", "stdout": 5, "created": "?"}]
)
def test_whatever_comes_becomes_an_event(event: dict[str, Any]) -> None:
    row = stream().convert(event).row
    assert (row.counter, row.event, row.stdout) == (1, "verbose", "")


def test_what_cannot_be_converted_leaves_no_gap() -> None:
    events = stream()
    with pytest.raises(TypeError):
        events.convert(
            raw("playbook_on_stats", failures={"a": 1})
            | {"event_data": {"res": _Odd()}, "stdout": _Odd("x")}
        )
    assert events.convert(raw()).row.counter == 1


class _Odd(str):
    def count(self, *args: Any) -> int:
        raise TypeError
