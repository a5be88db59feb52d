"""Seven, fifty and five hundred plays at once, on three API processes of which one is killed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from dispatcher.db.engine import transaction
from tests.replaying_node import Recording, ReplayingNode, record
from tests.runner_service import said
from tests.seed_scenario import (
    FINAL,
    Play,
    Process,
    Scenario,
    engine_of,
    exact_summaries,
    make_seed_root,
    plays,
    three_processes,
)
from tests.stack import RunningStack, running_stack
from tests.waiting import wait_until

#: Fifty real plays are a minute of two CPUs: whatever else the machine does is added to that.
pytestmark = pytest.mark.timeout(600)


@dataclass
class Scene:
    stack: RunningStack
    engine: Engine
    config: Path


@pytest.fixture(scope="module")
def scene(session_dir: Path) -> Iterator[Scene]:
    config = make_seed_root(session_dir / "seed-root")
    with (
        running_stack(session_dir / "seed", v1_config=config, node_capacity=40) as stack,
        engine_of(stack) as engine,
    ):
        yield Scene(stack, engine, config)


def play(scene: Scene, processes: list[Process], given: list[Play], pause: float) -> None:
    scenario = Scenario(processes, given, pause=pause)
    scenario.play(timeout=400)
    assert scenario.tally.wrong == []
    exact = exact_summaries(scenario, scene.engine)
    assert exact == {"at the end": len(given), "an hour later": len(given)}, scenario.tally.wrong
    assert {(code, status) for _, code, status in scenario.tally.answers} == {
        (200, "OK"),
        (202, "STARTED"),
    }


@pytest.mark.parametrize(("count", "longest"), [(7, 6), (50, 20)])
def test_no_status_and_no_event_is_lost(scene: Scene, count: int, longest: int) -> None:
    with three_processes(scene.stack, scene.config) as processes:
        play(scene, processes, plays(count, longest=longest), 0.05)


def recorded(scene: Scene, processes: list[Process], given: Play) -> Recording:
    """A real run of a play."""
    http = processes[0].http
    body = {"seconds": given.seconds, "fails": given.fails}
    uuid = said(http.post("playbooks/play.yml", json=body))[3]["play_uuid"]
    wait_until(lambda: said(http.get(f"playbooks/{uuid}"))[2] in FINAL, what="the run has ended")
    return record(scene.engine, uuid, pauses_in="wait")


def test_nor_of_five_hundred_whose_events_are_replayed(scene: Scene, tmp_path: Path) -> None:
    with three_processes(scene.stack, scene.config) as processes:
        recordings = {
            fails: recorded(scene, processes, Play(0, fails=fails)) for fails in (False, True)
        }

        def chosen(variables: Mapping[str, Any]) -> tuple[Recording, float]:
            return recordings[variables["fails"]], float(variables["seconds"])

        with transaction(scene.engine) as connection:
            connection.execute(text("UPDATE node SET enabled = false"))
        with ReplayingNode(scene.engine, tmp_path, chosen).running():
            play(scene, processes, plays(500, longest=16), 0.02)
