"""The page on messages shows what the code sends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from uuid import UUID

from dispatcher.broker import celery_app, messages, publish, wake
from dispatcher.broker.messages import Dispatch, Manager

PAGE = (Path(__file__).parents[2] / "docs" / "messages.md").read_text()


def test_every_queue_and_entry_point_is_in_the_table() -> None:
    rows = re.findall(r"^\| `([^`]+)`[^|]*\| (?:`([^`]+)`|none) \| (\w+) \|", PAGE, re.MULTILINE)
    assert rows == [
        *((messages.manager_queue(m), messages.RUN_MANAGER, "trigger") for m in Manager),
        (messages.node_queue("<name>"), messages.START_JOBS, "pairs"),
        (messages.node_queue("<name>"), messages.CANCEL_JOBS, "pairs"),
        (messages.LIVE_EXCHANGE, "", "notice"),
    ]


def test_every_payload_is_shown_as_it_is_sent() -> None:
    shown = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    pairs = [
        (17, UUID("4b6cbb1e-57f0-4d5e-8b9a-0d8a2f7f3c11")),
        (18, UUID("c0a5c7a2-64de-4f0d-9a1a-6e2f5b8f1d22")),
    ]
    ((_, starts),) = messages.batches(Dispatch(job_id, dispatch, "n") for job_id, dispatch in pairs)
    assert shown == [
        messages.manager_payload(Manager.TASK, "wake"),
        starts,
        messages.live_payload(17, 250, False),
    ]
    assert messages.read_pairs(shown[1]) == pairs


def test_the_numbers_on_the_page_are_those_of_the_code() -> None:
    assert f"at most {messages.PAIRS_PER_MESSAGE} pairs" in PAGE
    assert f"| {celery_app.EXPIRES} s, never below 120 s" in PAGE
    assert f"the newest {wake.TRIGGERS_KEPT} are kept" in PAGE
    assert f"that lives {wake.TOKEN_MILLISECONDS // 1000} s" in PAGE
    assert f"`{celery_app.KEY_PREFIX}{messages.wake_token('<manager>')}`" in PAGE  # type: ignore[arg-type]
    assert f"waits at most {celery_app.PUBLISH_TIMEOUT:g} s" in PAGE
    assert f"nothing for {publish.HOLD_OFF:g} s" in PAGE
