"""What holds of the TaskManager's plans in every world."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from schedulers.core.decision import Begin, Block, Hold, Start, TaskDecision
from schedulers.core.plan_tasks import Ledger, plan_window
from schedulers.core.reasons import CODES, words
from schedulers.core.snapshot import ActiveJob, PendingJob, World
from tests.unit.plan_oracle import oracle, summary, takers
from tests.unit.planner_strategies import HOSTS, SEEDS, backlogs, worlds

SOME = settings(max_examples=40, deadline=None)


def _plan(world: World, jobs: list[PendingJob], limit: int = 0) -> list[TaskDecision]:
    return plan_window(Ledger.of(world), jobs, limit)[0]


def _starts(decisions: list[TaskDecision]) -> list[Start]:
    return [decision for decision in decisions if isinstance(decision, Start)]


@settings(max_examples=60, deadline=None)
@given(worlds(), backlogs(old=False))
def test_young_jobs_are_decided_as_the_rules_say(world, jobs):
    verdicts = {decision.job_id: summary(decision) for decision in _plan(world, jobs)}
    assert verdicts == oracle(world, jobs)


@SOME
@given(worlds(), backlogs(old=True))
def test_each_job_is_decided_once_with_a_reason_that_can_be_told(world, jobs):
    decisions = _plan(world, jobs)
    assert Counter(d.job_id for d in decisions) == Counter(job.id for job in jobs)
    for decision in decisions:
        if isinstance(decision, Block | Hold):
            assert tuple(decision.reason.data) == CODES[decision.reason.code]
            assert words(decision.reason.code, decision.reason.data).endswith(".")


@SOME
@given(worlds(), backlogs(old=True))
def test_no_node_gets_more_than_it_has_but_for_an_oversized_job_alone(world, jobs):
    by_id = {job.id: job for job in jobs}
    groups = {group.id: group for group in world.groups}
    started = defaultdict(list)
    for start in _starts(_plan(world, jobs)):
        started[start.node_id].append((by_id[start.job_id], groups[start.instance_group_id]))
    for node in world.nodes:
        here = [job.task_impact for job in world.active if job.node_id == node.id]
        new = started[node.id]
        if not new:
            continue
        assert len(here) + len(new) <= node.max_jobs
        impacts = here + [job.task_impact for job, _ in new]
        if sum(impacts) > node.capacity:
            ((job, group),) = new
            assert len(impacts) == 1
            assert all(job.task_impact > other.capacity for other in takers(world, group))


@SOME
@given(worlds(), backlogs(old=True))
def test_starts_never_exceed_a_groups_limits_and_go_to_its_nodes(world, jobs):
    by_id = {job.id: job for job in jobs}
    for group in world.groups:
        started = [s for s in _starts(_plan(world, jobs)) if s.instance_group_id == group.id]
        charged = [job for job in world.active if job.instance_group_id == group.id]
        forks = sum(job.forks for job in [*charged, *(by_id[s.job_id] for s in started)])
        allowed = {node.id for node in takers(world, group)}
        assert all(start.node_id in allowed for start in started)
        assert all(group.id in by_id[start.job_id].preferred_groups for start in started)
        if started and group.max_concurrent_jobs:
            assert len(charged) + len(started) <= group.max_concurrent_jobs
        if started and group.max_forks:
            assert forks <= group.max_forks


@SOME
@given(worlds(), backlogs(old=True))
def test_a_start_never_overlaps_an_exclusive_lock(world, jobs):
    by_id: dict[int, ActiveJob | PendingJob] = {job.id: job for job in jobs}
    held: list[ActiveJob | PendingJob] = list(world.active)
    for start in _starts(_plan(world, jobs)):
        job = by_id[start.job_id]
        for other in held:
            if {job.host_lock, other.host_lock} in ({"exclusive"}, {"exclusive", "shared"}):
                assert not set(job.lock_keys) & set(other.lock_keys)
        held.append(job)


@SOME
@given(worlds(), backlogs(old=True), SEEDS)
def test_the_order_of_rows_changes_nothing(world, jobs, seed):
    shuffler = random.Random(seed)

    def mixed(rows):
        return tuple(shuffler.sample(rows, len(rows)))

    other = replace(
        world,
        nodes=mixed(world.nodes),
        groups=tuple(replace(g, node_ids=mixed(g.node_ids)) for g in mixed(world.groups)),
        active=tuple(a._replace(lock_keys=mixed(a.lock_keys)) for a in mixed(world.active)),
        tenants=mixed(world.tenants),
        recent=mixed(world.recent),
        pauses=mixed(world.pauses),
        template_limits=mixed(world.template_limits),
    )
    jobs_mixed = [
        job._replace(dependencies=mixed(job.dependencies), lock_keys=mixed(job.lock_keys))
        for job in mixed(jobs)
    ]
    assert _plan(world, jobs) == _plan(other, jobs_mixed)


@SOME
@given(worlds(), backlogs(old=True), st.permutations(HOSTS))
def test_the_names_of_hosts_change_nothing(world, jobs, names):
    renamed = dict(zip(HOSTS, names, strict=True))

    def rename(row):
        return row._replace(lock_keys=tuple(renamed[key] for key in row.lock_keys))

    other = replace(world, active=tuple(map(rename, world.active)))
    plain = [_without_keys(d) for d in _plan(world, jobs)]
    assert plain == [_without_keys(d) for d in _plan(other, list(map(rename, jobs)))]


def _without_keys(decision: TaskDecision) -> TaskDecision:
    if not isinstance(decision, Block | Hold):
        return decision
    data = {name: value for name, value in decision.reason.data.items() if name != "keys"}
    return replace(decision, reason=replace(decision.reason, data=data))


@SOME
@given(worlds(), backlogs(old=True), SEEDS)
def test_the_ids_of_nodes_and_groups_change_nothing(world, jobs, seed):
    shuffler = random.Random(seed)
    nodes, groups = _other_ids(world.nodes, shuffler), _other_ids(world.groups, shuffler)

    def moved(job):
        return job._replace(
            node_id=nodes.get(job.node_id),
            instance_group_id=groups[job.instance_group_id],
        )

    other = replace(
        world,
        nodes=tuple(replace(node, id=nodes[node.id]) for node in world.nodes),
        groups=tuple(
            replace(g, id=groups[g.id], node_ids=tuple(nodes[n] for n in g.node_ids))
            for g in world.groups
        ),
        active=tuple(map(moved, world.active)),
        pauses=tuple(
            pause if pause.group_id is None else replace(pause, group_id=groups[pause.group_id])
            for pause in world.pauses
        ),
    )
    jobs_moved = [
        job._replace(preferred_groups=tuple(groups.get(g, 999) for g in job.preferred_groups))
        for job in jobs
    ]
    expected = [
        replace(d, node_id=nodes[d.node_id], instance_group_id=groups[d.instance_group_id])
        if isinstance(d, Start)
        else d
        for d in _plan(world, jobs)
    ]
    assert _plan(other, jobs_moved) == expected


@SOME
@given(worlds(), backlogs(old=True), st.permutations([1, 2, 3]))
def test_the_ids_of_tenants_change_nothing(world, jobs, ids):
    def moved(row):
        other = {"organization_id": ids[row.organization_id - 1]}
        return row._replace(**other) if isinstance(row, tuple) else replace(row, **other)

    other = replace(
        world,
        active=tuple(map(moved, world.active)),
        recent=tuple(map(moved, world.recent)),
        tenants=tuple(replace(tenant, id=ids[tenant.id - 1]) for tenant in world.tenants),
        pauses=tuple(
            moved(pause) if pause.organization_id is not None else pause for pause in world.pauses
        ),
    )
    assert _plan(world, jobs) == _plan(other, list(map(moved, jobs)))


def _other_ids(rows, shuffler: random.Random) -> dict[int, int]:
    fresh = shuffler.sample(range(1000, 1100), len(rows))
    return {row.id: other for row, other in zip(rows, fresh, strict=True)}


@SOME
@given(worlds(), backlogs(old=True), st.lists(st.integers(1, 5)), st.integers(0, 3))
def test_windows_of_any_size_decide_as_one_window_does(world, jobs, sizes, limit):
    """Cut in the order of turns; with one tenant that is the stored order."""
    by_id = {job.id: job for job in jobs}
    backlog = [by_id[decision.job_id] for decision in _plan(world, jobs, limit)]
    ledger = Ledger.of(world)
    decisions: list[TaskDecision] = []
    for size in [*sizes, len(backlog)]:
        window, backlog = backlog[:size], backlog[size:]
        decided, ledger = plan_window(ledger, window, limit)
        decisions += decided
    assert decisions == _plan(world, jobs, limit)


@SOME
@given(worlds(), backlogs(old=True))
def test_the_ledger_holds_what_was_there_less_what_was_started(world, jobs):
    before = Ledger.of(world)
    decisions, after = plan_window(before, jobs)
    assert before == Ledger.of(world)
    by_id = {job.id: job for job in jobs}
    rows = [(a.node_id, a.instance_group_id, a) for a in world.active]
    rows += [(s.node_id, s.instance_group_id, by_id[s.job_id]) for s in _starts(decisions)]
    for node_id, account in after.nodes.items():
        here = [job for at, _, job in rows if at == node_id]
        assert account.jobs == len(here)
        assert account.remaining + sum(job.task_impact for job in here) == account.capacity
    for group_id, group in after.groups.items():
        through = [job for _, via, job in rows if via == group_id]
        assert group.jobs == len(through)
        assert group.forks == sum(job.forks for job in through)
    assert after.starts == len(_starts(decisions))


@SOME
@given(worlds(), backlogs(old=True), st.integers(1, 4))
def test_a_limited_pass_makes_the_first_starts_of_an_unlimited_one(world, jobs, limit):
    unlimited = _starts(_plan(world, jobs))
    decisions, ledger = plan_window(Ledger.of(world), jobs, limit)
    assert _starts(decisions) == unlimited[:limit]
    assert ledger.stopped_early == (len(unlimited) > limit)


@SOME
@given(worlds(), backlogs(old=True))
def test_jobs_without_a_node_take_nothing(world, jobs):
    # of one tenant: a head that is gone changes whose turn it is among equals
    jobs = [job._replace(organization_id=1) for job in jobs]
    begun = {d.job_id for d in _plan(world, jobs) if isinstance(d, Begin)}
    others = [job for job in jobs if job.id not in begun]
    assert _starts(_plan(world, jobs)) == _starts(_plan(world, others))
