"""Cancel in every status, and what it owes."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import Engine, insert, select, text

from dispatcher.actions.cancel import CancelResult, cancel_job
from dispatcher.broker.messages import Dispatch, Manager
from dispatcher.db import tables as t
from dispatcher.db.change import read_counter
from dispatcher.db.engine import transaction
from dispatcher.domain.status import Status
from dispatcher.errors import NotCancelable, NotFound
from tests.factories import make_job, make_node


def cancel(engine: Engine, job_id: int) -> CancelResult:
    with transaction(engine) as connection:
        return cancel_job(connection, job_id)


@pytest.mark.parametrize("status", ["pending", "waiting"])
def test_a_job_without_a_run_is_canceled_at_once(engine: Engine, status: str) -> None:
    with transaction(engine) as connection:
        make_node(connection)
        job_id = make_job(connection, status=status)
        before = read_counter(connection)
    result = cancel(engine, job_id)
    assert result.status is Status.CANCELED
    assert result.owed.wakes == {Manager.TASK}
    assert not result.owed.cancels
    with transaction(engine) as connection:
        assert read_counter(connection) == before + 1
        row = connection.execute(select(t.job)).one()
    assert (row.status, row.outcome, row.events_complete) == ("canceled", "canceled", True)


def test_the_node_of_a_running_job_is_told_to_read_the_flag(engine: Engine) -> None:
    with transaction(engine) as connection:
        make_node(connection, "n7")
        job_id = make_job(connection, status="running")
        dispatch = connection.execute(select(t.job.c.dispatch_id)).scalar_one()
    for _ in range(2):  # asking again is harmless
        result = cancel(engine, job_id)
        assert result.status is Status.RUNNING
        assert result.owed.cancels == (Dispatch(job_id, dispatch, "n7"),)
    with transaction(engine) as connection:
        assert connection.execute(select(t.job.c.cancel_requested)).scalar_one() is True


@pytest.mark.parametrize("status", ["successful", "failed", "error", "canceled"])
def test_a_final_job_is_not_cancelable(engine: Engine, status: str) -> None:
    with transaction(engine) as connection:
        job_id = make_job(connection, status=status)
    with pytest.raises(NotCancelable, match=status):
        cancel(engine, job_id)


def test_an_unknown_job_is_not_found(engine: Engine) -> None:
    with pytest.raises(NotFound):
        cancel(engine, 4711)


def test_a_workflow_is_left_to_its_manager(engine: Engine) -> None:
    with transaction(engine) as connection:
        workflow = make_job(connection, kind="workflow", status="running")
        child = make_job(connection)
        connection.execute(
            insert(t.workflow_node).values(workflow_job_id=workflow, identifier="a", job_id=child)
        )
    assert cancel(engine, workflow).owed.wakes == {Manager.WORKFLOW}
    assert cancel(engine, child).owed.wakes == {Manager.TASK, Manager.WORKFLOW}
    with transaction(engine) as connection:
        touched = connection.execute(select(t.workflow_touch.c.workflow_job_id)).scalars().all()
    assert touched == [workflow, workflow]


def test_a_hundred_cancels_at_once_are_all_answered(engine: Engine) -> None:
    with transaction(engine) as connection:
        make_node(connection)
        jobs = [make_job(connection, status="running") for _ in range(50)]
    results: list[CancelResult] = []

    def ask(mine: list[int]) -> None:
        results.extend(cancel(engine, job_id) for job_id in mine)

    threads = [
        threading.Thread(target=ask, args=(jobs if n % 2 else jobs[::-1],)) for n in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 100
    with transaction(engine) as connection:
        flags = connection.execute(text("SELECT count(*) FROM job WHERE cancel_requested")).scalar()
    assert flags == 50
