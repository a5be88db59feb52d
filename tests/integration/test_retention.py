"""What is removed when its time is over, in which order, and what is kept whatever its age."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from sqlalchemy import Connection, Engine, insert, text

from dispatcher import clock
from dispatcher.broker.messages import Manager
from dispatcher.db import tables as t
from dispatcher.db.claim_content import resolve_bundles
from dispatcher.db.engine import transaction
from dispatcher.db.partitions import partition_name
from dispatcher.db.retention import delete_finished_jobs
from dispatcher.settings import Settings
from schedulers.passes import housekeeping
from schedulers.passes.housekeeping import DAY, Housekeeping
from tests.factories import add_events, drop_partition, make_job, make_node
from tests.passes import make_jobs, runner
from tests.templates import make_project, updated

OLD = "created = created - interval '40 days', finished = finished - interval '40 days'"


def age(connection: Connection, *job_ids: int) -> None:
    """As if they had been created and ended forty days ago."""
    connection.execute(text(f"UPDATE job SET {OLD} WHERE id = ANY(:ids)"), {"ids": list(job_ids)})


def delete(connection: Connection, *, most: int = 100) -> int:
    return delete_finished_jobs(connection, age=30 * DAY, most=most)


def left(connection: Connection) -> set[int]:
    return set(connection.scalars(text("SELECT id FROM job")))


def old_partition(connection: Connection) -> str:
    """The partition of the day forty days ago."""
    day = (clock.now() - timedelta(days=40)).date()
    connection.execute(
        text(
            f"CREATE TABLE {partition_name(day)} PARTITION OF job_event"
            f" FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
        )
    )
    return partition_name(day)


def exists(engine: Engine, table: str) -> bool:
    with engine.connect() as connection:
        found = connection.execute(text("SELECT to_regclass(:name) IS NOT NULL"), {"name": table})
        return bool(found.scalar_one())


# -- jobs


def test_only_jobs_that_ended_long_ago_go_with_all_that_is_theirs(engine: Engine) -> None:
    with transaction(engine) as connection:
        make_node(connection)
        old, recent = (make_job(connection, status="successful") for _ in "ab")
        running, pending = make_job(connection, status="running"), make_job(connection)
        connection.execute(insert(t.job_result), {"job_id": old})
        connection.execute(insert(t.job_host_summary), {"job_id": old, "host_name": "h"})
        age(connection, old, running, pending)
        assert delete(connection) == 1
        assert left(connection) == {recent, running, pending}
        for table in ("job_input", "job_result", "job_host_summary"):
            query = text(f"SELECT count(*) FROM {table} WHERE job_id = :id")
            assert connection.scalar(query, {"id": old}) == 0


def test_a_batch_is_bounded_and_takes_the_oldest_first(engine: Engine) -> None:
    with transaction(engine) as connection:
        ids = [make_job(connection, status="successful") for _ in range(5)]
        age(connection, *ids)
        age(connection, ids[3])
        assert delete(connection, most=1) == 1
        assert ids[3] not in left(connection)
        assert [delete(connection, most=3) for _ in range(3)] == [3, 1, 0]


def test_the_newest_content_of_each_project_and_branch_is_kept(engine: Engine) -> None:
    with transaction(engine) as connection:
        project, other = make_project(connection), make_project(connection)
        first = updated(connection, project)
        newest = updated(connection, project)
        branch = updated(connection, project, "b")
        elsewhere = updated(connection, other)
        failed = make_job(connection, kind="project_update", status="failed", project_id=project)
        connection.execute(
            text("UPDATE job SET finished = finished - interval '1 min' WHERE id = :id"),
            {"id": first},
        )
        age(connection, first, newest, branch, elsewhere, failed)
        assert delete(connection) == 2
        assert left(connection) == {newest, branch, elsewhere}
        make_node(connection)
        job_id = make_job(connection, status="running", project_id=project)
        connection.execute(insert(t.job_project), {"job_id": job_id, "scm_type": "git"})
        resolve_bundles(connection, [job_id])
        digests = connection.execute(
            text("SELECT bundle_digest FROM job_project WHERE job_id IN (:job, :newest)"),
            {"job": job_id, "newest": newest},
        )
        assert len(set(digests.scalars())) == 1
        connection.execute(text("DELETE FROM project WHERE id = :id"), {"id": other})
        assert delete(connection) == 1, "nobody can ask for the content of a project that is gone"


def test_a_workflow_goes_before_its_children_and_a_relaunch_keeps_what_it_took_over(
    engine: Engine,
) -> None:
    with transaction(engine) as connection:
        first, again = (make_job(connection, kind="workflow", status="successful") for _ in "ab")
        shared, own = (make_job(connection, status="successful") for _ in "ab")
        for workflow, name, job_id in (
            (first, "a", shared),
            (first, "b", own),
            (again, "a", shared),
        ):
            connection.execute(
                insert(t.workflow_node),
                {"workflow_job_id": workflow, "identifier": name, "job_id": job_id},
            )
        age(connection, first, shared, own)
        assert [delete(connection) for _ in range(3)] == [1, 1, 0]
        assert left(connection) == {again, shared}
        age(connection, again)
        assert [delete(connection) for _ in range(3)] == [1, 1, 0]


def test_a_lost_job_goes_after_its_retry(engine: Engine) -> None:
    with transaction(engine) as connection:
        lost = make_job(connection, status="error", outcome="node_lost")
        retry = make_job(connection, status="successful", retry_of=lost)
        age(connection, lost)
        assert delete(connection) == 0
        age(connection, retry)
        assert [delete(connection) for _ in range(3)] == [1, 1, 0]


def test_what_an_unfinished_job_depends_on_stays(engine: Engine) -> None:
    with transaction(engine) as connection:
        update = make_job(connection, kind="inventory_update", status="successful")
        waits = make_job(connection)
        connection.execute(insert(t.job_dependency), {"job_id": waits, "depends_on_id": update})
        age(connection, update)
        assert delete(connection) == 0
        connection.execute(text("DELETE FROM job_dependency"))
        assert delete(connection) == 1


def test_a_job_that_somebody_has_locked_is_left_for_the_next_batch(engine: Engine) -> None:
    with transaction(engine) as connection:
        ids = [make_job(connection, status="successful") for _ in "ab"]
        age(connection, *ids)
    with engine.begin() as somebody, transaction(engine) as connection:
        somebody.execute(text("SELECT FROM job WHERE id = :id FOR UPDATE"), {"id": ids[0]})
        assert delete(connection) == 1
        assert left(connection) == {ids[0]}


# -- events


def test_a_days_events_go_once_each_of_its_jobs_is_past_retention(
    engine: Engine, settings: Settings
) -> None:
    with transaction(engine) as connection:
        make_node(connection)
        partition = old_partition(connection)
        done, runs = (
            make_job(connection, status="successful"),
            make_job(connection, status="running"),
        )
        age(connection, done, runs)
        add_events(connection, done, ["line"])
    with runner(settings) as made:
        made.trigger(Manager.RECOVERY)
    with transaction(engine) as connection:
        assert left(connection) == {runs}
        assert connection.scalar(text(f"SELECT count(*) FROM {partition}")) == 1
        connection.execute(
            text(
                "UPDATE job SET status = 'successful', outcome = 'successful',"
                " finished = dispatcher_now() - interval '31 days' WHERE id = :id"
            ),
            {"id": runs},
        )
    with runner(settings) as made:
        made.trigger(Manager.RECOVERY)
    assert not exists(engine, partition)
    with engine.connect() as connection:
        assert left(connection) == set()


def test_a_kept_project_update_keeps_no_day(engine: Engine, settings: Settings) -> None:
    with transaction(engine) as connection:
        partition = old_partition(connection)
        update = updated(connection, make_project(connection))
        age(connection, update)
    with runner(settings) as made:
        made.trigger(Manager.RECOVERY)
    assert not exists(engine, partition)
    with engine.connect() as connection:
        assert left(connection) == {update}


def test_with_retention_off_nothing_goes(engine: Engine, settings: Settings) -> None:
    with transaction(engine) as connection:
        partition = old_partition(connection)
        job_id = make_job(connection, status="successful")
        age(connection, job_id)
    with runner(settings.model_copy(update={"keep_jobs_days": 0})) as made:
        made.trigger(Manager.RECOVERY)
    assert exists(engine, partition)
    with engine.connect() as connection:
        assert left(connection) == {job_id}


def test_a_reader_keeps_the_partition_but_neither_its_room_nor_anybodys_writing(
    engine: Engine, settings: Settings
) -> None:
    """The reader has looked at another day; a drop must wait for it, and must not make others.

    Nor must a new partition, which is due at every midnight.
    """
    with transaction(engine) as connection:
        make_node(connection)
        drop_partition(connection, days_ahead=3)
        partition = old_partition(connection)
        gone = make_job(connection, status="successful")
        age(connection, gone)
        add_events(connection, gone, ["line"] * 10)
        runs = make_job(connection, status="running")
    stop = threading.Event()
    slowest = [0.0]

    def write() -> None:
        while not stop.is_set():
            began = clock.monotonic()
            with transaction(engine) as connection:
                add_events(connection, runs, ["line"])
            slowest[0] = max(slowest[0], clock.monotonic() - began)

    thread = threading.Thread(target=write)
    with engine.connect() as reader, reader.begin():
        reader.execute(text(f"SELECT FROM job_event WHERE job_day = '{clock.now().date()}'"))
        thread.start()
        try:
            with runner(settings) as made:
                assert made.trigger(Manager.RECOVERY) == "complete"
        finally:
            stop.set()
            thread.join()
        assert exists(engine, partition)
        with engine.connect() as connection:
            assert connection.scalar(text(f"SELECT count(*) FROM {partition}")) == 0
    assert slowest[0] < 1.0
    with runner(settings) as made:
        made.trigger(Manager.RECOVERY)
    assert not exists(engine, partition)


# -- rounds


def test_more_than_a_batch_is_deleted_pass_by_pass(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "JOBS_AT_ONCE", 100)
    with transaction(engine) as connection:
        ids = make_jobs(
            connection,
            250,
            status="successful",
            outcome="successful",
            finished=clock.now(),
        )
        age(connection, *ids)
    keeping = Housekeeping(engine)
    counts = []
    for _ in range(4):
        keeping.run(settings)
        with engine.connect() as connection:
            counts.append(len(left(connection)))
    assert counts == [150, 50, 0, 0]


def test_a_batch_that_takes_too_long_is_tried_again_with_half_as_many(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    deleting = housekeeping.delete_finished_jobs

    def slow(connection: Connection, *, age: float, most: int) -> int:
        tried.append(most)
        if most > 200:
            connection.execute(text("SET LOCAL statement_timeout = '10ms'"))
            connection.execute(text("SELECT pg_sleep(1)"))
        return deleting(connection, age=age, most=most)

    monkeypatch.setattr(housekeeping, "delete_finished_jobs", slow)
    monkeypatch.setattr(housekeeping, "RETRY", 0.0)
    keeping = Housekeeping(engine)
    for _ in range(3):
        keeping.run(settings)
    assert tried == [500, 250, 125]
