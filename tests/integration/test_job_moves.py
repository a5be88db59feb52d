"""Every move of a job: legal, raced, with the wrong dispatch or epoch, canceled; and what CHECKs refuse."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, Row, text
from sqlalchemy.exc import IntegrityError

from dispatcher import settings
from dispatcher.db import job_moves
from dispatcher.db.engine import make_engine
from dispatcher.db.job_moves import StartRow
from dispatcher.domain.outcome import FACTS, Outcome
from dispatcher.domain.status import ACTIVE, FINAL, MOVES, NODE_KINDS, Kind, Status
from tests.databases import Databases
from tests.factories import default_group, make_job, make_node
from tests.waiting import wait_until

ALL_STATUSES = [str(status) for status in Status]


@pytest.fixture(scope="module")
def shared(databases: Databases, migrated_template: str) -> Iterator[Engine]:
    """One database for all tests here that never commit."""
    url = databases.make("job_moves", template=migrated_template)
    engine = make_engine(settings.load(database_url=url), application_name="job moves")
    yield engine
    engine.dispose()
    databases.drop("job_moves")


@pytest.fixture
def connection(shared: Engine) -> Iterator[Connection]:
    """One transaction, rolled back in the end, with a node named n1 under epoch 1."""
    with shared.connect() as connected:
        transaction = connected.begin()
        make_node(connected, "n1")
        yield connected
        transaction.rollback()


def row(connection: Connection, job_id: int) -> Row[Any]:
    return connection.execute(text("SELECT * FROM job WHERE id = :id"), {"id": job_id}).one()


def status(connection: Connection, job_id: int) -> str:
    return str(row(connection, job_id).status)


def node(connection: Connection, name: str = "n1") -> int:
    return int(
        connection.execute(text("SELECT id FROM node WHERE name = :n"), {"n": name}).scalar_one()
    )


def start_row(connection: Connection, job_id: int) -> StartRow:
    return StartRow(job_id, uuid.uuid4(), node(connection), default_group(connection))


def others(*statuses: Status) -> list[str]:
    """Every status but these."""
    return [word for word in ALL_STATUSES if word not in statuses]


# -- start


def test_start_moves_a_whole_batch_and_says_what_to_submit(connection: Connection) -> None:
    rows = [start_row(connection, make_job(connection)) for _ in range(3)]
    started = job_moves.start(connection, rows)
    assert {(s.job_id, s.dispatch_id, s.node) for s in started} == {
        (r.job_id, r.dispatch_id, "n1") for r in rows
    }
    moved = row(connection, rows[0].job_id)
    assert (moved.status, moved.node_id, moved.dispatch_id) == (
        "waiting",
        node(connection),
        rows[0].dispatch_id,
    )
    assert (moved.submissions, moved.queued_on_node, moved.pending_reason) == (1, False, None)
    assert None not in (moved.waiting_since, moved.submitted_at, moved.instance_group_id)


def test_start_of_nothing_is_nothing(connection: Connection) -> None:
    assert job_moves.start(connection, []) == []
    assert job_moves.begin(connection, []) == []
    assert job_moves.refuse(connection, {}) == []


@pytest.mark.parametrize("word", others(Status.PENDING))
def test_start_leaves_out_what_is_not_pending(connection: Connection, word: str) -> None:
    taken, free = make_job(connection, status=word), make_job(connection)
    before = row(connection, taken)
    started = job_moves.start(
        connection, [start_row(connection, taken), start_row(connection, free)]
    )
    assert [s.job_id for s in started] == [free]
    assert row(connection, taken) == before


def test_start_leaves_out_a_job_whose_cancel_was_requested(connection: Connection) -> None:
    job_id = make_job(connection, cancel_requested=True)
    assert job_moves.start(connection, [start_row(connection, job_id)]) == []


def test_start_forgets_why_the_job_was_pending(connection: Connection) -> None:
    job_id = make_job(connection, pending_reason={"code": "no_room"})
    job_moves.start(connection, [start_row(connection, job_id)])
    assert row(connection, job_id).pending_reason is None


# -- begin


def test_begin_moves_workflow_jobs_only(connection: Connection) -> None:
    workflow = make_job(connection, kind="workflow")
    ids = [workflow, *(make_job(connection, kind=str(kind)) for kind in Kind if kind != "workflow")]
    assert job_moves.begin(connection, ids) == [workflow]
    begun = row(connection, workflow)
    assert (begun.status, begun.dispatch_id, begun.node_epoch) == ("running", None, None)
    assert begun.started is not None


def test_begin_leaves_out_a_canceled_or_begun_workflow(connection: Connection) -> None:
    canceled = make_job(connection, kind="workflow", cancel_requested=True)
    running = make_job(connection, kind="workflow", status="running")
    assert job_moves.begin(connection, [canceled, running]) == []


# -- refuse


def test_refuse_ends_a_pending_job_with_its_reason(connection: Connection) -> None:
    first, second = make_job(connection), make_job(connection)
    refused = job_moves.refuse(
        connection,
        {
            first: (Outcome.DEPENDENCY, "project update 7 failed"),
            second: (Outcome.REFUSED, "no node of its group can ever take it"),
        },
    )
    assert sorted(refused) == [first, second]
    ended = row(connection, first)
    assert (ended.status, ended.outcome, ended.explanation, ended.events_complete) == (
        "failed",
        "dependency",
        "project update 7 failed",
        True,
    )
    assert ended.finished is not None


@pytest.mark.parametrize("word", others(Status.PENDING))
def test_refuse_touches_nothing_that_is_not_pending(connection: Connection, word: str) -> None:
    job_id = make_job(connection, status=word)
    before = row(connection, job_id)
    assert job_moves.refuse(connection, {job_id: (Outcome.REFUSED, "late")}) == []
    assert row(connection, job_id) == before


def test_refuse_leaves_approvals_to_whoever_decides_them(connection: Connection) -> None:
    job_id = make_job(connection, kind="approval")
    assert job_moves.refuse(connection, {job_id: (Outcome.REFUSED, "no")}) == []


# -- decide


@pytest.mark.parametrize(
    ("approved", "status_then", "outcome"),
    [(True, "successful", "successful"), (False, "failed", "denied")],
)
def test_the_first_decision_on_an_approval_stands(
    connection: Connection, approved: bool, status_then: str, outcome: str
) -> None:
    job_id = make_job(connection, kind="approval")
    assert job_moves.decide(connection, job_id, approved=approved, explanation="by ann")
    ended = row(connection, job_id)
    assert (ended.status, ended.outcome, ended.explanation) == (status_then, outcome, "by ann")
    assert not job_moves.decide(connection, job_id, approved=not approved, explanation="by bob")
    assert row(connection, job_id) == ended


def test_only_a_pending_approval_is_decided(connection: Connection) -> None:
    canceled = make_job(connection, kind="approval", status="canceled")
    playbook = make_job(connection)
    for job_id in (canceled, playbook):
        assert not job_moves.decide(connection, job_id, approved=True, explanation="")


# -- claim


def claim(connection: Connection, job_id: int, **change: Any) -> list[job_moves.Claimed]:
    values: dict[str, Any] = {
        "dispatch_id": row(connection, job_id).dispatch_id or uuid.uuid4(),
        "node_id": node(connection),
        "epoch": 1,
    } | change
    dispatch_id = values.pop("dispatch_id")
    return job_moves.claim(connection, [(job_id, dispatch_id)], **values)


def test_claim_takes_the_job_and_makes_its_progress_row(connection: Connection) -> None:
    job_id = make_job(connection, status="waiting", queued_on_node=True)
    dispatch_id = row(connection, job_id).dispatch_id
    (claimed,) = claim(connection, job_id)
    assert (claimed.job_id, claimed.dispatch_id, claimed.cancel_requested) == (
        job_id,
        dispatch_id,
        False,
    )
    moved = row(connection, job_id)
    assert (moved.status, moved.node_epoch, moved.queued_on_node) == ("running", 1, False)
    assert claimed.job_day == moved.job_day
    progress = connection.execute(text("SELECT * FROM job_progress")).one()
    assert (progress.job_id, progress.dispatch_id, progress.job_day) == (
        job_id,
        dispatch_id,
        moved.job_day,
    )
    assert (progress.stored, progress.spool_offset) == (0, 0)


def test_a_second_claim_of_the_same_dispatch_changes_nothing(connection: Connection) -> None:
    job_id = make_job(connection, status="waiting")
    claim(connection, job_id)
    before = row(connection, job_id)
    assert claim(connection, job_id) == []
    assert row(connection, job_id) == before
    assert connection.scalar(text("SELECT count(*) FROM job_progress")) == 1


def test_a_claim_of_an_older_dispatch_changes_nothing(connection: Connection) -> None:
    job_id = make_job(connection, status="waiting")
    before = row(connection, job_id)
    assert claim(connection, job_id, dispatch_id=uuid.uuid4()) == []
    assert row(connection, job_id) == before


def test_a_claim_by_another_node_changes_nothing(connection: Connection) -> None:
    job_id = make_job(connection, status="waiting", node_id=node(connection))
    other = make_node(connection, "n2")
    assert claim(connection, job_id, node_id=other) == []
    assert status(connection, job_id) == "waiting"


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_claim_under_another_epoch_changes_nothing(connection: Connection, epoch: int) -> None:
    job_id = make_job(connection, status="waiting")
    assert claim(connection, job_id, epoch=epoch) == []
    assert status(connection, job_id) == "waiting"


@pytest.mark.parametrize("state", ["suspect", "lost", "left"])
def test_a_node_that_is_not_alive_claims_nothing(connection: Connection, state: str) -> None:
    job_id = make_job(connection, status="waiting")
    connection.execute(text("UPDATE node_lease SET state = :state"), {"state": state})
    assert claim(connection, job_id) == []
    assert status(connection, job_id) == "waiting"


@pytest.mark.parametrize("word", others(Status.WAITING))
def test_a_claim_of_what_is_not_waiting_changes_nothing(connection: Connection, word: str) -> None:
    job_id = make_job(connection, status=word)
    before = row(connection, job_id)
    assert claim(connection, job_id) == []
    assert row(connection, job_id) == before


def test_of_two_claims_at_once_one_wins(engine: Engine) -> None:
    with engine.begin() as connection:
        node_id = make_node(connection)
        job_id = make_job(connection, status="waiting")
        dispatch_id = row(connection, job_id).dispatch_id
    won: list[int] = []
    gate = threading.Barrier(4)

    def race() -> None:
        gate.wait(10)
        with engine.begin() as racing:
            won.append(
                len(job_moves.claim(racing, [(job_id, dispatch_id)], node_id=node_id, epoch=1))
            )

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(won) == [0, 0, 0, 1]


def test_a_claim_and_the_loss_of_its_node_exclude_each_other(engine: Engine) -> None:
    """Recovery that marks the node lost waits for a claim under way, and then sees its row."""
    with engine.begin() as connection:
        node_id = make_node(connection)
        job_id = make_job(connection, status="waiting")
        dispatch_id = row(connection, job_id).dispatch_id
    seen: list[str] = []

    def lose() -> None:
        with engine.begin() as recovery:
            recovery.execute(text("UPDATE node_lease SET state = 'lost' WHERE state = 'alive'"))
            seen.append(status(recovery, job_id))

    def blocked() -> bool:
        with engine.connect() as watching:
            waits = text(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            return bool(watching.scalar(waits))

    thread = threading.Thread(target=lose)
    with engine.begin() as claiming:
        assert job_moves.claim(claiming, [(job_id, dispatch_id)], node_id=node_id, epoch=1)
        thread.start()
        wait_until(blocked, what="recovery waits for the claim")
        assert not seen
    thread.join(30)
    assert seen == ["running"]


# -- return


def test_return_undoes_the_start_and_keeps_the_reason(connection: Connection) -> None:
    job_id = make_job(connection, status="waiting", submissions=3, queued_on_node=True)
    dispatch_id = row(connection, job_id).dispatch_id
    returned = job_moves.return_jobs(
        connection, reason={"code": "node_lost", "node": "n1"}, dispatches=[(job_id, dispatch_id)]
    )
    assert returned == [job_id]
    back = row(connection, job_id)
    assert (back.status, back.dispatch_id, back.node_id, back.instance_group_id) == (
        "pending",
        None,
        None,
        None,
    )
    assert (back.waiting_since, back.submitted_at, back.submissions, back.queued_on_node) == (
        None,
        None,
        0,
        False,
    )
    assert back.pending_reason == {"code": "node_lost", "node": "n1"}


def test_return_of_a_node_takes_its_waiting_jobs_only(connection: Connection) -> None:
    mine, other = node(connection), make_node(connection, "n2")
    waiting = [make_job(connection, status="waiting", node_id=mine) for _ in range(2)]
    running = make_job(connection, status="running", node_id=mine)
    elsewhere = make_job(connection, status="waiting", node_id=other)
    returned = job_moves.return_jobs(connection, reason={"code": "suspect"}, node_ids=[mine])
    assert sorted(returned) == waiting
    assert status(connection, running) == "running"
    assert status(connection, elsewhere) == "waiting"


def test_return_of_an_older_dispatch_changes_nothing(connection: Connection) -> None:
    job_id = make_job(connection, status="waiting")
    assert job_moves.return_jobs(connection, reason={}, dispatches=[(job_id, uuid.uuid4())]) == []
    assert status(connection, job_id) == "waiting"


def test_a_returned_job_can_be_started_and_claimed_again(connection: Connection) -> None:
    job_id = make_job(connection, status="waiting")
    job_moves.return_jobs(connection, reason={}, node_ids=[node(connection)])
    again = start_row(connection, job_id)
    assert len(job_moves.start(connection, [again])) == 1
    assert len(claim(connection, job_id, dispatch_id=again.dispatch_id)) == 1


def test_return_of_nothing_is_nothing(connection: Connection) -> None:
    make_job(connection, status="waiting")
    assert job_moves.return_jobs(connection, reason={}) == []


# -- cancel


@pytest.mark.parametrize("word", ["pending", "waiting"])
def test_cancel_before_the_claim_is_final_at_once(connection: Connection, word: str) -> None:
    job_id = make_job(connection, status=word)
    canceled = job_moves.cancel(connection, job_id)
    assert canceled is not None
    assert canceled.status == Status.CANCELED
    ended = row(connection, job_id)
    assert (ended.status, ended.outcome, ended.cancel_requested, ended.events_complete) == (
        "canceled",
        "canceled",
        True,
        True,
    )
    assert ended.finished is not None
    assert ended.canceled_on is not None


def test_cancel_of_a_waiting_job_beats_its_claim(connection: Connection) -> None:
    job_id = make_job(connection, status="waiting")
    dispatch_id = row(connection, job_id).dispatch_id
    job_moves.cancel(connection, job_id)
    assert claim(connection, job_id, dispatch_id=dispatch_id) == []


def test_cancel_of_a_running_job_is_a_request_and_says_where_it_runs(
    connection: Connection,
) -> None:
    job_id = make_job(connection, status="running")
    before = row(connection, job_id)
    canceled = job_moves.cancel(connection, job_id)
    assert canceled is not None
    assert (canceled.status, canceled.dispatch_id, canceled.node_id, canceled.kind) == (
        Status.RUNNING,
        before.dispatch_id,
        before.node_id,
        "playbook",
    )
    flagged = row(connection, job_id)
    assert (flagged.status, flagged.cancel_requested) == ("running", True)
    assert (flagged.outcome, flagged.finished) == (None, None)


def test_a_second_cancel_keeps_the_time_of_the_first(connection: Connection) -> None:
    job_id = make_job(connection, status="running")
    job_moves.cancel(connection, job_id)
    first = row(connection, job_id).canceled_on
    assert job_moves.cancel(connection, job_id) is not None
    assert row(connection, job_id).canceled_on == first


@pytest.mark.parametrize("word", sorted(FINAL))
def test_cancel_of_a_final_job_changes_nothing(connection: Connection, word: str) -> None:
    job_id = make_job(connection, status=word)
    before = row(connection, job_id)
    assert job_moves.cancel(connection, job_id) is None
    assert row(connection, job_id) == before


def test_cancel_of_a_job_that_does_not_exist_is_none(connection: Connection) -> None:
    assert job_moves.cancel(connection, 424242) is None


def test_an_approval_can_be_canceled(connection: Connection) -> None:
    job_id = make_job(connection, kind="approval")
    canceled = job_moves.cancel(connection, job_id)
    assert canceled is not None
    assert (canceled.status, canceled.kind) == (Status.CANCELED, "approval")


# -- finish


def finish(
    connection: Connection, job_id: int, outcome: Outcome, **change: Any
) -> job_moves.Finished | None:
    values: dict[str, Any] = {
        "dispatch_id": row(connection, job_id).dispatch_id,
        "outcome": outcome,
        "explanation": "as it was",
    } | change
    return job_moves.finish(connection, job_id, **values)


#: What a run that was started can end with; the others belong to jobs that never ran.
RUN_OUTCOMES = sorted(set(Outcome) - {Outcome.DEPENDENCY, Outcome.DENIED, Outcome.REFUSED})


@pytest.mark.parametrize("outcome", RUN_OUTCOMES)
def test_finish_writes_the_status_that_goes_with_the_outcome(
    connection: Connection, outcome: Outcome
) -> None:
    job_id = make_job(connection, status="running")
    finished = finish(connection, job_id, outcome)
    assert finished is not None
    assert (finished.status, finished.outcome) == (FACTS[outcome].status, outcome)
    ended = row(connection, job_id)
    assert (ended.status, ended.outcome, ended.explanation, ended.events_complete) == (
        FACTS[outcome].status,
        outcome,
        "as it was",
        True,
    )
    assert ended.finished >= ended.started == finished.started


@pytest.mark.parametrize("outcome", RUN_OUTCOMES)
def test_a_requested_cancel_wins_over_what_the_run_reached(
    connection: Connection, outcome: Outcome
) -> None:
    job_id = make_job(connection, status="running")
    job_moves.cancel(connection, job_id)
    asked = row(connection, job_id).canceled_on
    finished = finish(connection, job_id, outcome)
    assert finished is not None
    assert (finished.status, finished.outcome) == (Status.CANCELED, Outcome.CANCELED)
    ended = row(connection, job_id)
    assert (ended.status, ended.outcome, ended.canceled_on) == ("canceled", "canceled", asked)


def test_a_run_stopped_by_the_stop_policy_is_canceled_without_a_request(
    connection: Connection,
) -> None:
    job_id = make_job(connection, status="running")
    finish(connection, job_id, Outcome.CANCELED)
    ended = row(connection, job_id)
    assert (ended.status, ended.cancel_requested) == ("canceled", True)
    assert ended.canceled_on is not None


def test_a_run_that_was_not_canceled_has_no_time_of_cancel(connection: Connection) -> None:
    job_id = make_job(connection, status="running")
    finish(connection, job_id, Outcome.SUCCESSFUL)
    ended = row(connection, job_id)
    assert (ended.cancel_requested, ended.canceled_on) == (False, None)


def test_finish_of_another_dispatch_changes_nothing(connection: Connection) -> None:
    job_id = make_job(connection, status="running")
    before = row(connection, job_id)
    assert finish(connection, job_id, Outcome.SUCCESSFUL, dispatch_id=uuid.uuid4()) is None
    assert finish(connection, job_id, Outcome.SUCCESSFUL, dispatch_id=None) is None
    assert row(connection, job_id) == before


@pytest.mark.parametrize("word", others(Status.RUNNING))
def test_finish_of_what_is_not_running_changes_nothing(connection: Connection, word: str) -> None:
    job_id = make_job(connection, status=word)
    before = row(connection, job_id)
    assert finish(connection, job_id, Outcome.SUCCESSFUL) is None
    assert row(connection, job_id) == before


def test_a_workflow_job_finishes_without_a_dispatch(connection: Connection) -> None:
    job_id = make_job(connection, status="running", kind="workflow")
    finished = finish(connection, job_id, Outcome.WORKFLOW_FAILED, dispatch_id=None)
    assert finished is not None
    assert finished.status == Status.FAILED


def test_a_lost_run_may_lack_events(connection: Connection) -> None:
    job_id = make_job(connection, status="running")
    finish(connection, job_id, Outcome.NODE_LOST, events_complete=False)
    assert row(connection, job_id).events_complete is False


def test_of_a_finish_and_a_cancel_at_once_the_row_tells_one_story(engine: Engine) -> None:
    """Whichever is first: never 'successful' with a cancel that was promised."""
    with engine.begin() as connection:
        make_node(connection)
        job_id = make_job(connection, status="running")
        dispatch_id = row(connection, job_id).dispatch_id
    gate = threading.Barrier(2)
    answers: dict[str, Any] = {}

    def run(name: str, action: Callable[[Connection], Any]) -> None:
        gate.wait(10)
        with engine.begin() as racing:
            answers[name] = action(racing)

    threads = [
        threading.Thread(target=run, args=("cancel", lambda c: job_moves.cancel(c, job_id))),
        threading.Thread(
            target=run,
            args=(
                "finish",
                lambda c: job_moves.finish(
                    c,
                    job_id,
                    dispatch_id=dispatch_id,
                    outcome=Outcome.SUCCESSFUL,
                    explanation="",
                ),
            ),
        ),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    with engine.connect() as connection:
        ended = status(connection, job_id)
    assert ended == ("canceled" if answers["cancel"] else "successful")
    assert answers["finish"].status == ended


# -- what the schema refuses, whoever writes it

CONTRADICTIONS = {
    "final without an end": ("pending", "status = 'successful', outcome = 'successful'"),
    "an end that is not final": ("running", "finished = dispatcher_now()"),
    "final without an outcome": ("running", "status = 'failed', finished = dispatcher_now()"),
    "an outcome that is not final": ("running", "outcome = 'successful'"),
    "an outcome of another status": ("failed", "outcome = 'successful'"),
    "waiting without a dispatch": ("waiting", "dispatch_id = NULL"),
    "waiting without a node": ("waiting", "node_id = NULL"),
    "waiting without a group": ("waiting", "instance_group_id = NULL"),
    "waiting without a time": ("waiting", "waiting_since = NULL"),
    "pending with a node": ("waiting", "status = 'pending', dispatch_id = NULL"),
    "pending that has started": ("pending", "started = dispatcher_now()"),
    "running without a start": ("running", "started = NULL"),
    "running without a dispatch": ("running", "dispatch_id = NULL"),
    "running without an epoch": ("running", "node_epoch = NULL"),
    "a workflow on a node": ("running", "kind = 'workflow'"),
    "a waiting workflow": ("waiting", "kind = 'workflow'"),
    "a running approval": ("running", "kind = 'approval', dispatch_id = NULL, node_epoch = NULL"),
    "a waiting approval": ("waiting", "kind = 'approval'"),
    "canceled without a request": ("canceled", "cancel_requested = false"),
    "an unknown status": ("pending", "status = 'new'"),
    "an unknown kind": ("pending", "kind = 'script'"),
    "an unknown outcome": ("failed", "outcome = 'bad_luck'"),
    "a negative impact": ("pending", "task_impact = -1"),
    "a retry of itself": ("pending", "retry_of = id"),
    "an unknown lock": ("pending", "host_lock = 'both'"),
}


@pytest.mark.parametrize(("word", "change"), CONTRADICTIONS.values(), ids=list(CONTRADICTIONS))
def test_the_schema_refuses(connection: Connection, word: str, change: str) -> None:
    job_id = make_job(connection, status=word)
    with pytest.raises(IntegrityError, match="violates check constraint"):
        connection.execute(text(f"UPDATE job SET {change} WHERE id = :id"), {"id": job_id})


def test_every_legal_move_has_rows_that_the_schema_accepts(connection: Connection) -> None:
    """The CHECKs and the table of moves agree on which kind may be at which status."""
    for move in MOVES:
        for kind in move.kinds:
            make_job(connection, status=str(move.source), kind=str(kind))
            if not (kind == "approval" and move.target in ACTIVE):
                make_job(connection, status=str(move.target), kind=str(kind))
    assert {k for m in MOVES if m.target == Status.WAITING for k in m.kinds} == NODE_KINDS
