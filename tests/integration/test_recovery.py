"""Recovery on a real database: silent nodes, lost messages, lost runs, housekeeping."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import Connection, Engine, text
from structlog.testing import capture_logs

from dispatcher.broker.messages import Manager
from dispatcher.db import job_moves
from dispatcher.settings import Settings
from schedulers.core.decision import SetNodeState
from schedulers.core.plan_recovery import MOST_RESUBMISSIONS, lost_at, suspect_at
from schedulers.passes import apply_recovery, recovery
from schedulers.passes.manager_pass import Runner
from tests.factories import drop_partition, make_job, make_node, store_bundle
from tests.passes import changed, job_row, runner, submitted

RECOVERY = Manager.RECOVERY


def age(connection: Connection, job_id: int, seconds: float) -> None:
    """As if the job had been submitted and waiting for longer."""
    connection.execute(
        text(
            "UPDATE job SET waiting_since = waiting_since - make_interval(secs => :s),"
            " submitted_at = dispatcher_now() - make_interval(secs => :s), submissions = 1"
            " WHERE id = :id"
        ),
        {"id": job_id, "s": seconds},
    )


def tick(engine: Engine, running: Runner, *, renewed: tuple[int, ...] = ()) -> None:
    """A pass, five seconds later by the database's clock."""
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE node_watch SET ticked_at = ticked_at - interval '5 seconds'")
        )
        connection.execute(
            text("UPDATE node_lease SET seq = seq + 1 WHERE node_id = ANY(:nodes)"),
            {"nodes": list(renewed)},
        )
    assert running.trigger(RECOVERY) == "complete"


def state(engine: Engine, node_id: int) -> str:
    with engine.connect() as connection:
        return str(
            connection.execute(
                text("SELECT state FROM node_lease WHERE node_id = :id"), {"id": node_id}
            ).scalar_one()
        )


def test_a_submission_that_was_lost_is_repeated_a_few_times(
    engine: Engine, settings: Settings, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        job_id = make_job(connection, status="waiting")
        age(connection, job_id, settings.submission_grace + 1)
    running.trigger(RECOVERY)
    row = job_row(engine, job_id)
    assert submitted(settings, "n1") == [[(job_id, row.dispatch_id)]]
    assert (row.status, row.submissions) == ("waiting", 2)
    running.trigger(RECOVERY)
    assert submitted(settings, "n1") == [], "the gap has doubled"
    with engine.begin() as connection:
        connection.execute(
            text(
                "UPDATE job SET submissions = :n, submitted_at = dispatcher_now() - interval '20 s'"
            ),
            {"n": MOST_RESUBMISSIONS + 1},
        )
    running.trigger(RECOVERY)
    assert submitted(settings, "n1") == []


def test_a_job_that_its_node_does_not_take_is_returned(
    engine: Engine, settings: Settings, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        job_id = make_job(connection, status="waiting")
        age(connection, job_id, settings.waiting_limit + 1)
    running.trigger(RECOVERY)
    row = job_row(engine, job_id)
    assert (row.status, row.dispatch_id) == ("pending", None)
    assert row.pending_reason["data"]["why"] == "not_claimed"


def test_a_job_that_its_node_holds_for_room_is_left_alone(
    engine: Engine, settings: Settings, running: Runner
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        job_id = make_job(connection, status="waiting", queued_on_node=True)
        age(connection, job_id, 10 * settings.waiting_limit)
    running.trigger(RECOVERY)
    assert job_row(engine, job_id).status == "waiting"


def test_a_silent_node_becomes_suspect_and_its_waiting_jobs_are_returned(
    engine: Engine, settings: Settings, running: Runner
) -> None:
    with changed(engine) as connection:
        silent, lively = make_node(connection, "silent"), make_node(connection, "lively")
        waiting = make_job(connection, status="waiting", node_id=silent)
        kept = make_job(connection, status="running", node_id=silent)
    for _ in range(suspect_at(settings.heartbeat) + 1):
        tick(engine, running, renewed=(lively,))
    assert (state(engine, silent), state(engine, lively)) == ("suspect", "alive")
    assert job_row(engine, waiting).status == "pending"
    assert job_row(engine, kept).status == "running", "only fencing ends what runs"
    tick(engine, running, renewed=(silent, lively))
    assert state(engine, silent) == "alive"


def test_running_jobs_of_a_lost_node_end_as_node_lost_and_canceled_ones_as_canceled(
    engine: Engine, settings: Settings, running: Runner
) -> None:
    with changed(engine) as connection:
        node_id = make_node(connection)
        lost = make_job(connection, status="running", node_id=node_id)
        canceled = make_job(connection, status="running", node_id=node_id, cancel_requested=True)
        workflow = make_job(connection, status="running", kind="workflow")
        connection.execute(
            text(
                "INSERT INTO workflow_node (workflow_job_id, identifier, job_id)"
                " VALUES (:workflow, 'a', :job)"
            ),
            {"workflow": workflow, "job": lost},
        )
    for _ in range(lost_at(settings.node_lost_after)):
        tick(engine, running)
    assert (state(engine, node_id), job_row(engine, lost).status) == ("suspect", "running")
    tick(engine, running)
    assert state(engine, node_id) == "lost"
    row = job_row(engine, lost)
    assert (row.status, row.outcome, row.events_complete) == ("error", "node_lost", False)
    assert "n1" in row.explanation
    assert job_row(engine, canceled).status == "canceled"
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT workflow_job_id FROM workflow_touch")) == workflow


def test_the_log_names_jobs_and_nodes_that_recovery_acted_on(
    engine: Engine, settings: Settings, running: Runner
) -> None:
    with changed(engine) as connection:
        node_id = make_node(connection)
        again = make_job(connection, status="waiting", node_id=node_id)
        age(connection, again, settings.submission_grace + 1)
        late = make_job(connection, status="waiting", node_id=node_id)
        age(connection, late, settings.waiting_limit + 1)
        lost = make_job(connection, status="running", node_id=node_id)
    dispatches = {id_: str(job_row(engine, id_).dispatch_id) for id_ in (again, late, lost)}

    def named(job_id: int) -> dict[str, object]:
        return {"job_id": job_id, "dispatch_id": dispatches[job_id], "node": "n1"}

    with capture_logs() as logged:
        running.trigger(RECOVERY)
        for _ in range(lost_at(settings.node_lost_after) + 1):
            tick(engine, running)
    said = {}
    for record in logged:
        if record["log_level"] == "info":
            said.setdefault(record["event"], []).append(record)
    (repeated,) = said["starts are submitted again"]
    assert (repeated["count"], repeated["jobs"]) == (1, [named(again)])
    returned = said["jobs return to pending"][0]
    assert (returned["count"], returned["jobs"], returned["reason"]) == (
        1,
        [named(late)],
        "returned",
    )
    states = [(r["node"], r["state"]) for r in said["the state of a node changes"]]
    assert states == [("n1", "suspect"), ("n1", "lost")]
    (given_up,) = said["a job is given up with its node"]
    assert given_up.items() >= {**named(lost), "outcome": "node_lost"}.items()


def test_a_node_that_renews_between_look_and_write_keeps_its_state(engine: Engine) -> None:
    with changed(engine) as connection:
        node_id = make_node(connection)
        observed = SetNodeState(node_id, "lost", observed_seq=0)
        connection.execute(text("UPDATE node_lease SET seq = 1"))
        applied = apply_recovery.watch_nodes(connection, [observed], now=None)  # type: ignore[arg-type]
    assert state(engine, node_id) == "alive"
    assert not applied.changed


def test_a_claim_and_a_return_of_the_same_dispatch_have_one_winner(
    engine: Engine, settings: Settings, running: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is committed after recovery has decided and before it writes."""
    with changed(engine) as connection:
        node_id = make_node(connection)
        job_id = make_job(connection, status="waiting", node_id=node_id)
        age(connection, job_id, settings.waiting_limit + 1)
    plan = recovery.plan_recovery

    def claimed_meanwhile(snapshot: object) -> object:
        decisions = plan(snapshot)  # type: ignore[arg-type]
        with engine.begin() as connection:
            pairs = [(job_id, job_row(engine, job_id).dispatch_id)]
            assert job_moves.claim(connection, pairs, node_id=node_id, epoch=1)
        return decisions

    monkeypatch.setattr(recovery, "plan_recovery", claimed_meanwhile)
    running.trigger(RECOVERY)
    assert job_row(engine, job_id).status == "running"


def test_a_row_whose_handling_raises_does_not_keep_the_others_from_recovery(
    engine: Engine, settings: Settings, running: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with changed(engine) as connection:
        node_id = make_node(connection)
        jobs = [make_job(connection, status="waiting", node_id=node_id) for _ in range(5)]
        for job_id in jobs:
            age(connection, job_id, settings.waiting_limit + 1)
    plan = recovery.plan_recovery

    def raising(snapshot: recovery.RecoverySnapshot) -> object:
        if any(row.job_id == jobs[2] for row in snapshot.waiting):
            raise ZeroDivisionError
        return plan(snapshot)

    monkeypatch.setattr(recovery, "plan_recovery", raising)
    running.trigger(RECOVERY)
    assert [job_row(engine, j).status for j in jobs] == [
        "pending", "pending", "waiting", "pending", "pending",
    ]  # fmt: skip


def test_partitions_are_made_ahead_and_old_keys_deleted_only_with_their_job_final(
    engine: Engine, settings: Settings
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        done, unfinished = make_job(connection, status="successful"), make_job(connection)
        for key, job_id, hours in (("old", done, 25), ("new", done, 23), ("open", unfinished, 99)):
            connection.execute(
                text(
                    "INSERT INTO idempotency_key (principal, route, key, request_sha256, job_id,"
                    " created) VALUES ('p', 'runs', :key, '', :job,"
                    " dispatcher_now() - make_interval(hours => :hours))"
                ),
                {"key": key, "job": job_id, "hours": hours},
            )
        partition = drop_partition(connection, days_ahead=2)
    with runner(settings) as made:
        made.trigger(RECOVERY)
    with engine.connect() as connection:
        keys = set(connection.scalars(text("SELECT key FROM idempotency_key")))
    assert keys == {"new", "open"}
    assert exists(engine, partition)


def test_housekeeping_deletes_bundles_that_nobody_needs_and_no_other(
    engine: Engine, settings: Settings
) -> None:
    with changed(engine) as connection:
        needed, recent, unused, broken_off = (
            store_bundle(connection, {"site.yml": f"# {name}"}) for name in "abcd"
        )
        make_job(connection, status="successful", bundle_digest=needed)
        connection.execute(
            text(
                "UPDATE content_bundle SET last_used = dispatcher_now() - interval '25 hours',"
                " complete = digest <> :broken WHERE digest <> :recent"
            ),
            {"recent": recent, "broken": broken_off},
        )
    with runner(settings) as made:
        made.trigger(RECOVERY)
    with engine.connect() as connection:
        left = set(connection.scalars(text("SELECT digest FROM content_bundle")))
        chunks = set(connection.scalars(text("SELECT digest FROM content_chunk")))
    assert left == chunks == {needed, recent}
    assert unused not in left


def test_housekeeping_that_meets_a_lock_is_put_off_and_recovery_goes_on(
    engine: Engine, settings: Settings
) -> None:
    with changed(engine) as connection:
        make_node(connection)
        job_id = make_job(connection, status="waiting")
        age(connection, job_id, settings.waiting_limit + 1)
        partition = drop_partition(connection, days_ahead=3)
    with engine.begin() as somebody:
        somebody.execute(text("LOCK TABLE job_event IN ACCESS SHARE MODE"))
        with runner(settings) as made:
            assert made.trigger(RECOVERY) == "complete"
    assert job_row(engine, job_id).status == "pending"
    assert not exists(engine, partition)
    with runner(settings) as made:
        made.trigger(RECOVERY)
    assert exists(engine, partition)


def exists(engine: Engine, table: str) -> bool:
    with engine.connect() as connection:
        found = connection.execute(text("SELECT to_regclass(:name) IS NOT NULL"), {"name": table})
        return bool(found.scalar_one())


def test_recovery_by_another_process_goes_on_counting(engine: Engine, settings: Settings) -> None:
    with changed(engine) as connection:
        node_id = make_node(connection)
    for _ in range(suspect_at(settings.heartbeat) + 1):
        with runner(settings) as made:
            tick(engine, replace(made))
    assert state(engine, node_id) == "suspect"
