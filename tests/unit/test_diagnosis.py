"""What `dispatcher doctor` makes of what it has read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatcher.domain.diagnosis import (
    DatabaseFacts,
    Level,
    LostRun,
    NodeFacts,
    check_clock,
    check_database,
    check_jobs,
    check_nodes,
)

SOUND = DatabaseFacts("18.1", False, 0, "", "on", True, 5, 100)


def found(facts: DatabaseFacts) -> list[tuple[Level, str]]:
    return [(finding.level, finding.words) for finding in check_database(facts)]


def test_one_server_that_keeps_its_commits_is_well() -> None:
    assert found(SOUND) == [(Level.OK, "PostgreSQL 18.1, 5 of 100 connections in use")]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (replace(SOUND, standby=True), "standby"),
        (replace(SOUND, fsync=False), "fsync is off"),
        (replace(SOUND, synchronous_commit="off"), "synchronous_commit is off"),
        (replace(SOUND, followers=1), "1 servers follow it and no commit waits"),
        (
            replace(SOUND, followers=2, synchronous_standby_names="*", synchronous_commit="local"),
            "2 servers follow it and no commit waits",
        ),
    ],
)
def test_whatever_can_lose_a_commit_is_an_error(facts: DatabaseFacts, words: str) -> None:
    ((level, said),) = found(facts)
    assert level is Level.ERROR
    assert words in said


@pytest.mark.parametrize("commit", ["on", "remote_write", "remote_apply"])
def test_a_replicated_server_that_waits_is_well(commit: str) -> None:
    facts = replace(
        SOUND, followers=1, synchronous_standby_names="ANY 1 (*)", synchronous_commit=commit
    )
    assert [level for level, _ in found(facts)] == [Level.OK]


def test_connections_that_run_out_are_told_beside_what_is_wrong() -> None:
    facts = replace(SOUND, connections=90, fsync=False)
    assert [level for level, _ in found(facts)] == [Level.ERROR, Level.WARNING]


@pytest.mark.parametrize(
    ("level", "seconds"),
    [
        (Level.OK, (0.0, -0.9)),
        (Level.WARNING, (1.0, -4.9)),
        (Level.ERROR, (5.0, -8.0)),
    ],
)
def test_a_clock_is_near_off_or_wrong(level: Level, seconds: tuple[float, ...]) -> None:
    assert {check_clock(each).level for each in seconds} == {level}


def test_each_node_that_takes_no_jobs_is_named_with_its_reason() -> None:
    nodes = [
        NodeFacts("n1", "", "1.0"),
        NodeFacts("n2", "the disk is full", "1.0"),
        NodeFacts("n3", "it counts as lost", "0.9"),
    ]
    assert [(f.level, f.words) for f in check_nodes(nodes, "1.0")] == [
        (Level.WARNING, "n2: the disk is full"),
        (Level.WARNING, "n3: it counts as lost"),
        (Level.WARNING, "not version 1.0: n3 (0.9)"),
        (Level.OK, "1 of 3 take jobs"),
    ]


@pytest.mark.parametrize("nodes", [[], [NodeFacts("n1", "it is being drained", "1.0")]])
def test_no_node_that_takes_jobs_is_an_error(nodes: list[NodeFacts]) -> None:
    assert list(check_nodes(nodes, "1.0"))[-1].level is Level.ERROR


def test_a_run_that_was_lost_with_its_node_says_where_the_rest_is() -> None:
    runs = [LostRun(7, "n1", 12, "/data/runs/x"), *(LostRun(n, "n2", 0) for n in range(6))]
    words = [finding.words for finding in check_jobs(2, runs)]
    assert words[0] == "2 wait for their node for more than 60 s"
    assert words[1] == (
        "job 7 ended with its node n1; 12 events are stored, what came later is in /data/runs/x and"
        " never will be"
    )
    assert words[-1] == "2 more jobs ended with their nodes in the last day"
