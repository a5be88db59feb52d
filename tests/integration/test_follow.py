"""Following a job: every event once, in order, to the end, whatever happens to the connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text

from dispatcher.actions.cancel import cancel_job
from dispatcher.client.answers import Job, JobEvent
from dispatcher.client.client import Client
from dispatcher.client.connection import Connection
from dispatcher.client.errors import NotAllowed
from dispatcher.client.follow import Interruption, Update, follow
from dispatcher.db import job_moves
from dispatcher.db.engine import transaction
from dispatcher.domain.outcome import Outcome
from dispatcher.errors import NotFound
from dispatcher.settings import Settings
from tests.api_server import Api, as_process, in_thread
from tests.cutting_proxy import cutting_proxy
from tests.factories import add_events, finish_job, make_job, make_node


@pytest.fixture
def api(settings: Settings, engine: Engine) -> Iterator[Api]:
    with in_thread(settings, engine) as running:
        yield running


@pytest.fixture
def job_id(engine: Engine) -> int:
    with transaction(engine) as connection:
        make_node(connection)
        return make_job(connection, status="running")


def client_of(api: Api, url: str | None = None) -> Client:
    return Client(Connection(url or api.url, api.token, patience=20))


def counters(updates: list[Update]) -> list[int]:
    return [update.counter for update in updates if isinstance(update, JobEvent)]


def append_then_finish(engine: Engine, job_id: int, batches: int, size: int) -> threading.Thread:
    def work() -> None:
        for number in range(batches):
            with transaction(engine) as connection:
                add_events(connection, job_id, [f"line {number}.{n} ä" for n in range(size)])
        with transaction(engine) as connection:
            finish_job(connection, job_id)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_live_job_is_followed_to_its_end(api: Api, engine: Engine, job_id: int) -> None:
    following = follow(client_of(api), job_id)
    first = next(following)
    assert isinstance(first, Job)
    assert first.status == "running"
    thread = append_then_finish(engine, job_id, batches=20, size=25)
    updates = list(following)
    thread.join()
    assert counters(updates) == list(range(1, 501))
    assert not [update for update in updates if isinstance(update, Interruption)]
    last = updates[-1]
    assert isinstance(last, Job)
    assert (last.status, last.exit_code) == ("successful", 0)


def test_a_connection_that_breaks_again_and_again_loses_and_repeats_nothing(
    api: Api, engine: Engine, job_id: int
) -> None:
    with cutting_proxy(api.url, after=(2_000, 400_000)) as proxy:
        thread = append_then_finish(engine, job_id, batches=60, size=50)
        updates = list(follow(client_of(api, proxy.url), job_id))
        thread.join()
        assert counters(updates) == list(range(1, 3001))
        assert proxy.cuts >= 5
    assert isinstance(updates[-1], Job)


def test_who_joins_late_reads_everything_and_who_resumes_the_rest(
    api: Api, engine: Engine, job_id: int
) -> None:
    with transaction(engine) as connection:
        add_events(connection, job_id, [f"line {n}" for n in range(700)])
        finish_job(connection, job_id, "failed")
    updates = list(follow(client_of(api), job_id))
    assert counters(updates) == list(range(1, 701))
    assert isinstance(updates[-1], Job)
    assert updates[-1].exit_code == 1
    assert counters(list(follow(client_of(api), job_id, after=650))) == list(range(651, 701))


def test_a_server_that_is_restarted_meanwhile_is_waited_for(
    settings: Settings, engine: Engine, job_id: int
) -> None:
    with as_process(settings, engine) as first:
        port = first.url.rsplit(":", 1)[1]
        following = follow(client_of(first), job_id)
        with transaction(engine) as connection:
            add_events(connection, job_id, ["one", "two"])
        seen = [next(following) for _ in range(3)]
        assert counters(seen) == [1, 2]
    with as_process(settings, engine, DISPATCHER_API_PORT=port):
        with transaction(engine) as connection:
            add_events(connection, job_id, ["three"])
            finish_job(connection, job_id)
        rest = list(following)
    assert counters(rest) == [3]


def test_a_pending_job_that_is_canceled_ends_at_once(api: Api, engine: Engine) -> None:
    with transaction(engine) as connection:
        job_id = make_job(connection, status="pending")
    following = follow(client_of(api), job_id)
    first = next(following)
    assert isinstance(first, Job)
    assert first.status == "pending"
    with transaction(engine) as connection:
        cancel_job(connection, job_id)
    last = list(following)[-1]
    assert isinstance(last, Job)
    assert (last.status, last.exit_code) == ("canceled", 3)


def test_a_job_that_does_not_exist_and_a_bad_token_are_errors(api: Api) -> None:
    with pytest.raises(NotFound):
        list(follow(client_of(api), 99))
    stranger = Client(Connection(api.url, "dsp_wrong", patience=0))
    with pytest.raises(NotAllowed):
        stranger.job(1)


def test_a_job_that_is_lost_is_followed_by_its_retry(api: Api, engine: Engine) -> None:
    with transaction(engine) as connection:
        node_id = make_node(connection)
        lost = make_job(connection, status="running", node_id=node_id, retries_left=1)
        add_events(connection, lost, ["one", "two"])
    following = follow(client_of(api), lost)
    assert counters([next(following) for _ in range(2)]) == [1, 2]
    with transaction(engine) as connection:
        dispatch = connection.execute(text("SELECT dispatch_id FROM job")).scalar_one()
        done = job_moves.finish(
            connection, lost, dispatch_id=dispatch, outcome=Outcome.NODE_LOST, explanation="gone"
        )
        assert done is not None
        assert done.retry_id is not None
        add_events(connection, done.retry_id, ["one again"])
        cancel_job(connection, done.retry_id)
    updates = list(following)
    jobs = [update for update in updates if isinstance(update, Job)]
    assert [(job.id, job.retried_by) for job in jobs if job.final] == [
        (lost, done.retry_id),
        (done.retry_id, None),
    ]
    assert counters(updates) == [1]
    assert updates[-1] is jobs[-1]
