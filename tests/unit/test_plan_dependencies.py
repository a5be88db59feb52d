"""DependencyManager's decisions, against an oracle written from the prose of docs/scheduling.md 2."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.domain.status import Kind, Status
from schedulers.core.decision import (
    LinkDependencies,
    NewInventoryUpdate,
    NewProjectUpdate,
)
from schedulers.core.plan_dependencies import plan_dependencies
from schedulers.core.snapshot import (
    ProjectRule,
    SourceRule,
    UnprocessedJob,
    Updates,
    UpdateWorld,
)

GOOD = Status.SUCCESSFUL


def playbook(id: int = 1, project: int | None = 1, **more: object) -> UnprocessedJob:
    return UnprocessedJob(id, Kind.PLAYBOOK, project, **more)  # type: ignore[arg-type]


def world(on_launch: bool = True, cache: float = 0, **updates: Updates) -> UpdateWorld:
    """One project; an inventory (7) with a source (5) in that project."""
    return UpdateWorld(
        projects={1: ProjectRule(on_launch, cache)},
        sources={5: SourceRule(5, 1, "", True, 60)},
        sources_of={7: (5,)},
        project_updates={(1, ""): updates["project"]} if "project" in updates else {},
        source_updates={5: updates["source"]} if "source" in updates else {},
    )


def only(job: UnprocessedJob, given: UpdateWorld) -> tuple[tuple[int, ...], tuple[object, ...]]:
    (decision,) = plan_dependencies([job], given)
    assert decision.job_id == job.id
    return decision.depends_on, decision.updates


def test_an_empty_batch_decides_nothing() -> None:
    assert plan_dependencies([], UpdateWorld()) == []


def test_a_job_without_project_and_inventory_needs_nothing() -> None:
    job = playbook(3, None)
    assert plan_dependencies([job], world()) == [LinkDependencies(3)]


def test_a_project_that_was_never_fetched_is_updated_whatever_it_says() -> None:
    for on_launch in (True, False):
        assert only(playbook(), world(on_launch)) == ((), (NewProjectUpdate(1, ""),))


def test_a_project_not_updated_on_launch_is_left_alone_once_there_is_content() -> None:
    for last in Status.SUCCESSFUL, Status.FAILED:
        found = Updates(active=9, last_status=last, last_age=10**6, ever=True)
        assert only(playbook(), world(False, project=found)) == ((), ())


def test_an_update_is_repeated_when_the_last_one_did_not_succeed_or_is_older_than_the_cache() -> (
    None
):
    new = ((), (NewProjectUpdate(1, ""),))
    for bad in (Status.FAILED, Status.ERROR, Status.CANCELED):
        found = Updates(last_status=bad, last_age=1, ever=True)
        assert only(playbook(), world(cache=60, project=found)) == new
    for age, expected in ((60, ((), ())), (61, new)):
        found = Updates(last_status=GOOD, last_age=age, ever=True)
        assert only(playbook(), world(cache=60, project=found)) == expected


def test_an_update_under_way_is_shared() -> None:
    found = Updates(active=9, last_status=GOOD, last_age=1, ever=True)
    assert only(playbook(), world(cache=60, project=found)) == ((9,), ())


def test_each_branch_has_an_update_of_its_own() -> None:
    jobs = [playbook(1, branch="a"), playbook(2, branch="b"), playbook(3, branch="a")]
    updates = [each.updates for each in plan_dependencies(jobs, world())]
    a, b = (NewProjectUpdate(1, "a"),), (NewProjectUpdate(1, "b"),)
    assert updates == [a, b, a]


def test_a_source_waits_for_the_update_of_the_project_that_its_file_is_in() -> None:
    job = playbook(inventory_id=7)
    new = NewProjectUpdate(1, "")
    assert only(job, world()) == ((), (new, NewInventoryUpdate(5, new)))
    running = Updates(active=9)
    assert only(job, world(project=running)) == ((9,), (NewInventoryUpdate(5, 9),))
    fresh = Updates(last_status=GOOD, last_age=1, ever=True)
    assert only(job, world(cache=60, project=fresh)) == ((), (NewInventoryUpdate(5, None),))
    assert only(job, world(cache=60, project=fresh, source=fresh)) == ((), ())
    assert only(job, world(cache=60, project=fresh, source=running)) == ((9,), ())


def test_an_inventory_update_needs_its_project_and_not_itself() -> None:
    job = UnprocessedJob(4, Kind.INVENTORY_UPDATE, 1, "", 7, 5)
    assert only(job, world()) == ((), (NewProjectUpdate(1, ""),))
    assert only(job, world(project=Updates(active=4))) == ((), ())


# -- any world

_UPDATES = st.builds(
    Updates,
    active=st.none() | st.integers(10_000, 10_050),
    last_status=st.none() | st.sampled_from(sorted({GOOD, Status.FAILED, Status.CANCELED})),
    last_age=st.floats(0, 200),
    ever=st.booleans(),
)
_BRANCHES = st.sampled_from(["", "x"])


@st.composite
def _worlds(draw: st.DrawFn) -> tuple[list[UnprocessedJob], UpdateWorld]:
    projects = {
        p: ProjectRule(draw(st.booleans()), draw(st.sampled_from([0, 100]))) for p in (1, 2)
    }
    sources = {
        s: SourceRule(s, draw(st.sampled_from([1, 2])), draw(_BRANCHES), draw(st.booleans()), 100)
        for s in range(5, 5 + draw(st.integers(0, 3)))
    }
    given = UpdateWorld(
        projects,
        sources,
        {7: tuple(sources)[:2], 8: tuple(sources)[2:]},
        {(p, b): draw(_UPDATES) for p in (1, 2) for b in ("", "x") if draw(st.booleans())},
        {s: draw(_UPDATES) for s in sources if draw(st.booleans())},
    )
    jobs = [
        UnprocessedJob(
            id,
            draw(st.sampled_from([Kind.PLAYBOOK, Kind.INVENTORY_UPDATE])),
            draw(st.sampled_from([None, 1, 2, 3])),
            draw(_BRANCHES),
            draw(st.sampled_from([None, 7, 8])),
        )
        for id in draw(st.lists(st.integers(1, 100), unique=True, max_size=8))
    ]
    return jobs, given


def _again(updates: Updates, cache: float) -> bool:
    """Prose: again if there is none, the last failed, or it is older than the cache time-out."""
    last = updates.last_status
    return last is None or last is not GOOD or (updates.last_age or 0) > cache


def _oracle(job: UnprocessedJob, given: UpdateWorld) -> set[object]:
    needs: set[object] = set()

    def project(id: int | None, branch: str) -> object | None:
        rule = given.projects.get(id or 0)
        if rule is None:
            return None
        known = given.project_updates.get((id or 0, branch), Updates())
        wanted = not known.ever or (
            rule.update_on_launch
            and (known.active is not None or _again(known, rule.cache_timeout))
        )
        if not wanted:
            return None
        return known.active if known.active is not None else NewProjectUpdate(id or 0, branch)

    needs.add(project(job.project_id, job.branch))
    if job.kind is Kind.PLAYBOOK:
        for source in given.sources_of.get(job.inventory_id or 0, ()):
            rule = given.sources[source]
            known = given.source_updates.get(source, Updates())
            if not rule.update_on_launch:
                continue
            if known.active is not None:
                needs.add(known.active)
            elif _again(known, rule.cache_timeout):
                needs.add(NewInventoryUpdate(source, project(rule.project_id, rule.branch)))  # type: ignore[arg-type]
    return needs - {None, job.id}


@given(_worlds())
def test_each_jobs_dependencies_are_exactly_its_own_whatever_is_beside_it(
    drawn: tuple[list[UnprocessedJob], UpdateWorld],
) -> None:
    jobs, given_world = drawn
    decisions = plan_dependencies(jobs, given_world)
    assert [each.job_id for each in decisions] == sorted(job.id for job in jobs)
    for job, decision in zip(sorted(jobs, key=lambda j: j.id), decisions, strict=True):
        assert {*decision.depends_on, *decision.updates} == _oracle(job, given_world)
        assert plan_dependencies([job], given_world) == [decision], "strangers change nothing"
