"""Findings: recap, errors and artifacts as the events tell them."""

from __future__ import annotations

from typing import Any

import pytest

from workers.events import EventStream
from workers.findings import Findings
from workers.masking import Masker


def found(*raws: dict[str, Any]) -> Findings:
    events, findings = EventStream(Masker(())), Findings("/run/project")
    for raw in raws:
        findings.add(events.convert(raw))
    return findings


def lines(text: str) -> list[dict[str, Any]]:
    return [
        {"event": "verbose", "stdout": f"\x1b[0;31m{line}\x1b[0m", "end_line": 1}
        for line in text.split("\n")
    ]


SYNTAX = """[ERROR]: YAML parsing failed: x
Origin: /run/project/site.yml:4:6

4      bad: x
       ^ column 6
"""


def test_an_error_before_the_play_is_put_together_from_its_lines() -> None:
    error = found(*lines(SYNTAX), {"event": "playbook_on_start"}).error
    assert (error.file, error.line, error.column) == ("site.yml", 4, 6)
    assert error.text.startswith("YAML parsing failed: x\nOrigin")
    assert error.text.endswith("^ column 6")


def test_a_warning_ends_an_error() -> None:
    error = found(*lines("[ERROR]: one\ntwo\n[WARNING]: three\nfour")).error
    assert error.text == "one\ntwo"


def test_an_error_in_one_event_counts_and_the_last_one_stands() -> None:
    text = "[ERROR]: 'nix' is undefined\r\nOrigin: /run/project/a b.yml:1:10\r\n"
    error = found(*lines(SYNTAX), {"event": "error", "stdout": text, "end_line": 2}).error
    assert (error.file, error.line, error.column) == ("a b.yml", 1, 10)


@pytest.mark.parametrize(
    ("text", "file", "line"),
    [
        ("[ERROR]: Empty playbook, nothing to do: /run/project/empty.yml", "empty.yml", 0),
        ("[ERROR]: x\nOrigin: /elsewhere/v.yml", "/elsewhere/v.yml", 0),
        ("[ERROR]: x\nOrigin: <inventory plugin 'ini' with source '/x'>", "", 0),
        ("[ERROR]: x", "", 0),
    ],
)
def test_a_file_is_named_where_ansible_names_one(text: str, file: str, line: int) -> None:
    error = found(*lines(text)).error
    assert (error.file, error.line) == (file, line)


def test_what_a_task_prints_is_no_error_of_ansible() -> None:
    printed = {"event": "runner_on_ok", "stdout": "[ERROR]: not mine", "end_line": 1}
    assert found(printed).error.text == ""


def test_plays_and_the_recap_are_counted() -> None:
    findings = found(
        {"event": "playbook_on_play_start"},
        {"event": "playbook_on_play_start"},
        {"event": "playbook_on_no_hosts_matched"},
        {"event": "playbook_on_stats", "event_data": {"ok": {"a": 1}, "rescued": 0}},
    )
    assert (findings.plays, findings.plays_without_hosts) == (2, 1)
    assert findings.stats is not None
    assert findings.stats["ok"] == {"a": 1}
    assert findings.stats["rescued"] == {}


def stats(host: str, aggregate: bool = True, per_host: bool = False, **data: Any) -> dict[str, Any]:
    sums = {"data": data, "aggregate": aggregate, "per_host": per_host}
    return {"event": "runner_on_ok", "event_data": {"host": host, "res": {"ansible_stats": sums}}}


def test_artifacts_add_up_as_in_ansible() -> None:
    findings = found(
        stats("a", n=1, words=["x"], map={"p": 1}),
        stats("b", n=2, words=["y"], map={"q": 2}),
        stats("b", aggregate=False, words=["z"]),
        stats("a", n="not a number"),
        stats("a", per_host=True, mine=1),
        stats("b", per_host=True, mine=2),
    )
    assert findings.artifacts == {
        "n": 3,
        "words": ["z"],
        "map": {"p": 1, "q": 2},
        "_per_host": {"a": {"mine": 1}, "b": {"mine": 2}},
    }


def asynchronous(host: str, job: str, event: str = "runner_on_ok", **result: Any) -> dict[str, Any]:
    data = {"host": host, "task": "restart", "res": {"ansible_job_id": job, **result}}
    return {"event": event, "event_data": data}


def test_asynchronous_tasks_that_nobody_waited_for_are_listed() -> None:
    findings = found(
        asynchronous("a", "j1", started=True, finished=False),
        asynchronous("b", "j1", started=1, finished=0),
        asynchronous("b", "j2", "runner_item_on_ok", started=1, finished=0),
        asynchronous("a", "j1", "runner_retry", started=1, finished=0),
        asynchronous("a", "j1", started=1, finished=1),
        asynchronous("b", "j2", "runner_on_failed", started=1, finished=1),
        asynchronous("a", "j3", started=1, finished=1),
    )
    assert findings.detached == [{"host": "b", "job": "j1", "task": "restart"}]
