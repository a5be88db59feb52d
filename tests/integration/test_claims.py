"""The claiming thread's own steps on a real database, without anything that starts playbooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from prometheus_client import REGISTRY
from sqlalchemy import Engine

from dispatcher.db import job_moves, node_rows
from dispatcher.db.node_rows import NodeJob
from dispatcher.settings import Settings
from tests.factories import default_group, make_job, make_node
from tests.passes import statuses
from workers.claim import MOST_AT_ONCE, Claimer
from workers.courier import Courier
from workers.runs import Runs

MORE = 30


class Filled:
    """Takes runs to be filled, and leaves them."""

    def __init__(self) -> None:
        self.jobs: list[int] = []

    def submit(self, run: Any, job_input: Any) -> None:
        self.jobs.append(run.job_id)


def overfull(settings: Settings, engine: Engine, filled: Filled) -> Claimer:
    """Of a node with more waiting jobs than one transaction claims."""
    with engine.begin() as connection:
        node_id = make_node(connection)
        for _ in range(MOST_AT_ONCE + MORE):
            make_job(connection, status="waiting", node_id=node_id)
        rows = node_rows.active_jobs(connection, node_id, uptime=1e6)
    return claimer(settings, engine, filled, node_id, rows)


def claimer(
    settings: Settings, engine: Engine, filled: Filled, node_id: int, rows: Sequence[NodeJob]
) -> Claimer:
    """Of a node that has seen these rows."""
    nothing: Any = None
    made = Claimer(
        settings,
        engine,
        Runs(),
        nothing,
        filled,  # type: ignore[arg-type]
        nothing,
        nothing,
        Courier(nothing),
        node_id=node_id,
        epoch=1,
    )
    made.see(rows)
    return made


def test_a_full_batch_of_claims_is_followed_by_the_next_one_at_once(
    settings: Settings, engine: Engine
) -> None:
    filled = Filled()
    under_test = overfull(settings.model_copy(update={"node_max_jobs": 1000}), engine, filled)
    assert under_test.claim(), "there is more, and room for it"
    assert statuses(engine) == {"running": MOST_AT_ONCE, "waiting": MORE}
    assert not under_test.claim()
    assert statuses(engine) == {"running": MOST_AT_ONCE + MORE}
    assert filled.jobs == sorted(filled.jobs), "those that wait longest first"
    assert not under_test.claim()


def test_jobs_without_room_are_no_reason_to_look_again(settings: Settings, engine: Engine) -> None:
    full = settings.model_copy(update={"node_max_jobs": MOST_AT_ONCE})
    under_test = overfull(full, engine, Filled())
    assert not under_test.claim()
    assert not under_test.claim()
    assert statuses(engine) == {"running": MOST_AT_ONCE, "waiting": MORE}


def test_the_wait_is_measured_by_what_the_job_had_waited_for(
    settings: Settings, engine: Engine
) -> None:
    with engine.begin() as connection:
        node_id = make_node(connection)
        started = [make_job(connection, pending_reason=why) for why in (None, {"code": "test"})]
        group_id = default_group(connection)
        job_moves.start(
            connection, [job_moves.StartRow(j, uuid4(), node_id, group_id) for j in started]
        )
        rows = node_rows.active_jobs(connection, node_id, uptime=1e6)
    counts = {word: waits(word) for word in ("none", "test")}
    assert not claimer(settings, engine, Filled(), node_id, rows).claim()
    assert {word: waits(word) for word in counts} == {word: n + 1 for word, n in counts.items()}


def waits(blocker: str) -> float:
    """Waits measured in this process so far."""
    name = "dispatcher_queue_wait_seconds_count"
    return REGISTRY.get_sample_value(name, {"blocker": blocker}) or 0.0
