"""Log records in both forms: who says it, about which job, and errors without values."""

from __future__ import annotations

import json
import logging

import pytest

from dispatcher import logs
from dispatcher.errors import Unavailable
from dispatcher.settings import Settings
from tests.recorded_logs import configured

FORMATS = pytest.mark.parametrize("form", ["json", "console"])


def write_one(form: str, capsys: pytest.CaptureFixture[str]) -> str:
    with (
        configured(Settings(log_format=form), role="agent", node="n1"),
        logs.bound(job_id=7, dispatch_id="d-1"),
    ):
        logs.get("here").info("started", playbook="site.yml")
    return capsys.readouterr().err


def test_a_json_record_says_role_node_job_and_dispatch(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = write_one("json", capsys).splitlines()
    record = json.loads(line)
    assert record.pop("timestamp").endswith("Z")
    assert record == {
        "event": "started",
        "level": "info",
        "logger": "here",
        "role": "agent",
        "node": "n1",
        "job_id": 7,
        "dispatch_id": "d-1",
        "playbook": "site.yml",
    }


def test_a_record_for_people_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = write_one("console", capsys).splitlines()
    for word in ("started", "role=agent", "node=n1", "job_id=7", "dispatch_id=d-1", "here"):
        assert word in line


@FORMATS
def test_what_other_libraries_log_has_the_same_fields(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with configured(Settings(log_format=form), role="beat"):
        logging.getLogger("foreign").warning("%s left", 3)
    written = capsys.readouterr().err
    assert "3 left" in written
    assert "beat" in written


@FORMATS
def test_an_error_is_written_with_where_it_was_and_what_it_came_from(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with configured(Settings(log_format=form)):
        try:
            try:
                raise KeyError("lost")
            except KeyError as error:
                raise Unavailable("away for now") from error
        except Unavailable:
            logs.get("here").exception("failed")
    written = capsys.readouterr().err
    for words in ("KeyError: 'lost'", "Unavailable: away for now", "test_logs.py", "direct cause"):
        assert words in written


@FORMATS
def test_a_circle_of_causes_and_a_group_of_errors_end(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__cause__ = second, first
    group = ExceptionGroup("both", [first, TypeError("three")])
    with configured(Settings(log_format=form)):
        logs.get("here").error("failed", exc_info=group)
    written = capsys.readouterr().err
    assert all(word in written for word in ("one", "two", "three", "both"))
