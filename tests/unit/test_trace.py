"""Traces: what is read from them, and what is said about a line that is wrong."""

from __future__ import annotations

import json

import pytest

from schedulers.core.simulate import simulate
from schedulers.core.trace import Trace, TraceError, read_trace, write_line

NODE = {"node": "n1", "capacity": 4}
JOB = {"job": "site.yml", "at": 0, "duration": 10}


def trace(*rows: dict[str, object]) -> Trace:
    return read_trace([write_line(**row) for row in ({"trace": 1}, *rows)])


def problem(*lines: str) -> tuple[int, str]:
    with pytest.raises(TraceError) as raised:
        list(read_trace(lines).arrivals)
    return raised.value.line, str(raised.value)


def test_nodes_groups_and_tenants_come_before_the_jobs():
    read = trace(
        {"tenant": "Ops", "weight": 3, "max_concurrent_jobs": 7},
        {"group": "dmz", "max_concurrent_jobs": 2, "max_forks": 50},
        NODE,
        {"node": "n2", "capacity": 8, "max_jobs": 3, "groups": ["dmz", "default"]},
    )
    assert list(read.arrivals) == []
    ops = read.world.tenants[0]
    assert (ops.name, ops.weight, ops.max_concurrent_jobs) == ("Ops", 3, 7)
    groups = {group.name: group for group in read.world.groups}
    assert (groups["dmz"].max_concurrent_jobs, groups["dmz"].max_forks) == (2, 50)
    assert (groups["dmz"].node_ids, groups["default"].node_ids) == ((2,), (1, 2))
    assert [(n.capacity, n.max_jobs) for n in read.world.nodes] == [(4, 200), (8, 3)]


def test_a_job_is_as_its_line_says():
    read = trace(
        NODE,
        {"node": "n2", "capacity": 1, "groups": ["dmz"]},
        JOB
        | {
            "at": 5,
            "tenant": "Ops",
            "impact": 3,
            "forks": 9,
            "priority": 2,
            "groups": ["dmz", "default"],
            "template": "t",
            "allow_simultaneous": False,
            "host_lock": "exclusive",
            "lock_keys": ["a"],
        },
    )
    (arrival,) = read.arrivals
    job = arrival.job
    assert (arrival.at, arrival.duration) == (5, 10)
    assert (job.task_impact, job.forks, job.rank, job.created) == (3, 9, 5 - 7200, 5)
    assert [read.groups[g] for g in job.preferred_groups] == ["dmz", "default"]
    assert read.tenants[job.organization_id] == "Ops"
    assert (job.host_lock, job.lock_keys, job.allow_simultaneous) == ("exclusive", ("a",), False)


def test_a_trace_is_played():
    read = trace({"trace": 1, "began": 1000}, NODE, JOB, JOB, JOB | {"at": 3})
    started = list(simulate(read.world, read.arrivals))
    assert [(s.job.id, s.at - 1000) for s in started] == [(1, 0), (2, 0), (3, 10)]


def test_jobs_are_read_as_they_are_asked_for():
    lines = iter([write_line(**NODE), write_line(**JOB), write_line(**JOB | {"at": 9})])
    read = read_trace(lines)
    next(read.arrivals)
    assert json.loads(next(lines))["at"] == 9


HEAD = (write_line(trace=1), write_line(**NODE))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"jobs": 1}', "none of trace, tenant, group, node, job"),
        ('{"trace": 2}', "trace: 2; this reads 1"),
        ('{"node": "n", "capacity": "x"}', "capacity: not a number of at least 0: 'x'"),
        ('{"node": "", "capacity": 1}', "node: not a text"),
        ('{"tenant": "t", "weight": 0}', "weight: not a number of at least 0.001: 0"),
        ('{"tenant": "t", "wait": 1}', "unknown or doubled field in: tenant, wait"),
        ('{"job": "j", "at": 1}', "duration: missing"),
        ('{"job": "j", "at": -1, "duration": 1}', "at: not a number of at least 0: -1"),
        ('{"job": "j", "at": NaN, "duration": 1}', "at: not a number"),
        ('{"job": "j", "at": 1, "duration": 1, "groups": "dmz"}', "groups: not a list of texts"),
        ('{"job": "j", "at": 1, "duration": 1, "groups": ["dmz"]}', "groups: no node is in dmz"),
        (
            '{"job": "j", "at": 1, "duration": 1, "host_lock": "x"}',
            "host_lock: none of none, shared",
        ),
        ('{"job": "j", "at": 1, "duration": 1, "allow_simultaneous": 1}', "neither true nor false"),
    ],
)
def test_a_wrong_line_is_named_with_what_is_wrong(line, words):
    number, said = problem(*HEAD, line)
    assert number == 3
    assert words in said


def test_jobs_come_in_order_and_after_everything_else():
    jobs = (write_line(**JOB | {"at": 5}), write_line(**JOB | {"at": 4}))
    assert problem(*HEAD, *jobs) == (4, "at: it comes before the job above it")
    assert problem(*HEAD, jobs[0], write_line(**NODE)) == (4, "only jobs come after the first job")
    assert problem(HEAD[0], jobs[0]) == (2, "no node comes before the first job")
