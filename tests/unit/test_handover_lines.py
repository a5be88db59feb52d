"""The lines that the Celery worker hands to the agent."""

from __future__ import annotations

from uuid import uuid4

import pytest

from dispatcher.broker.messages import CANCEL_JOBS, START_JOBS, Dispatch, batches
from workers.entry_points import line_for
from workers.handover import Handed, line, read_line

PAIR = (7, uuid4())


def test_what_is_handed_over_arrives_as_it_was() -> None:
    assert read_line(line(start=[PAIR])) == Handed(start=(PAIR,))
    assert read_line(line(cancel=[PAIR])) == Handed(cancel=(PAIR,))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"[]\n",
        b'{"v":2,"start":[]}\n',
        b'{"v":1,"start":[[1]]}\n',
        b'{"v":1,"start":7}\n',
    ],
)
def test_a_line_of_another_version_or_form_says_nothing(raw: bytes) -> None:
    assert read_line(raw) == Handed(unreadable=True)


@pytest.mark.parametrize("task", [START_JOBS, CANCEL_JOBS])
@pytest.mark.parametrize(
    "payload", [None, {}, {"v": 2, "jobs": []}, {"v": 1, "jobs": [["x", "y"]]}]
)
def test_a_message_of_an_unknown_version_is_only_counted(task: str, payload: object) -> None:
    assert read_line(line_for(task, payload)) == Handed(ignored=task)


def test_a_message_of_the_managers_names_its_jobs() -> None:
    [(_, payload)] = batches([Dispatch(*PAIR, "n1")])
    assert read_line(line_for(START_JOBS, payload)) == Handed(start=(PAIR,))
    assert read_line(line_for(CANCEL_JOBS, payload)) == Handed(cancel=(PAIR,))
