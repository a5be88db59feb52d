"""Spooled events into PostgreSQL exactly once, whatever becomes of the connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, event, select, text, update

from dispatcher import clock
from dispatcher import settings as settings_module
from dispatcher.broker.celery_app import make_app
from dispatcher.broker.publish import Publisher
from dispatcher.db import tables as t
from dispatcher.db.engine import make_engine
from dispatcher.settings import Settings
from tests.factories import make_job, make_node
from tests.nodes import counters, job_row, wait_final
from tests.tcp_proxy import in_front_of
from tests.waiting import wait_until
from workers.courier import Courier
from workers.outcome import Evidence, Tolerances
from workers.run_dir import Result, RunDir
from workers.runs import Phase, Run, Runs
from workers.shipper import MOST_EVENTS, Shipper
from workers.spool import SpooledEvent, SpoolWriter

Start = Callable[[Engine], Shipper]


class Spooled:
    """A run on disk as a supervisor leaves it, and its running row."""

    def __init__(self, engine: Engine, data_dir: Path, runs: Runs) -> None:
        with engine.begin() as connection:
            node = connection.scalar(select(t.node.c.id)) or make_node(connection)
            self.job_id = make_job(connection, status="running", node_id=node)
            dispatch_id = connection.scalar(
                select(t.job.c.dispatch_id).where(t.job.c.id == self.job_id)
            )
            assert isinstance(dispatch_id, UUID)
            connection.execute(
                text(
                    "INSERT INTO job_progress (job_id, job_day, dispatch_id)"
                    " SELECT id, job_day, dispatch_id FROM job WHERE id = :job"
                ),
                {"job": self.job_id},
            )
        self.directory = RunDir.create(data_dir, str(dispatch_id))
        self.writer = SpoolWriter(self.directory.spool)
        self.count = 0
        self.run = Run(self.job_id, dispatch_id, self.directory, Phase.STARTED)
        runs.add(self.run)

    def append(self, count: int = 1, stdout: str = "line", event_data: str = "{}") -> None:
        for _ in range(count):
            self.count += 1
            self.writer.append_event(
                SpooledEvent(
                    counter=self.count,
                    uuid=str(uuid4()),
                    parent_uuid="",
                    event="runner_on_ok",
                    created=clock.now(),
                    stdout=stdout,
                    start_line=self.count,
                    end_line=self.count + 1,
                    verbosity=0,
                    failed=False,
                    changed=False,
                    host_name="web1",
                    play="",
                    task="",
                    role="",
                    sanitized=False,
                    truncated=False,
                    event_data=event_data,
                )
            )

    def end(self, *, total: int | None = None, hosts: int = 1) -> None:
        """The supervisor's end record and result."""
        total = self.count if total is None else total
        self.writer.end(total)
        ok = {f"web{n}": 1 for n in range(hosts)}
        self.directory.write_result(
            Result(
                job_id=self.job_id,
                dispatch_id=self.directory.dispatch_id,
                evidence=Evidence(rc=0, plays=1, stats={"ok": ok, "processed": ok}),
                tolerances=Tolerances(),
                artifacts={"version": "1.2"},
                events_total=total,
                spool_bytes=self.writer.offset,
                started=clock.now().isoformat(),
                finished=clock.now().isoformat(),
            )
        )
        self.run.phase = Phase.ENDED


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def ship(settings: Settings, runs: Runs) -> Iterator[Start]:
    """Starts a shipper on an engine; stopped at the end."""
    courier = Courier(Publisher(make_app(settings, profile="publisher")))
    started: list[Shipper] = []

    def start(engine: Engine) -> Shipper:
        shipper = Shipper(engine, runs, courier)
        started.append(shipper)
        shipper.start()
        return shipper

    yield start
    for shipper in started:
        shipper.stop()


def exact(engine: Engine, spooled: Spooled) -> bool:
    return counters(engine, spooled.job_id) == list(range(1, spooled.count + 1))


@pytest.mark.parametrize("lost", ["answer", "commit"])
def test_a_commit_with_an_unknown_end_neither_doubles_nor_loses_an_event(
    settings: Settings,
    database_url: str,
    engine: Engine,
    runs: Runs,
    ship: Start,
    lost: str,
) -> None:
    spooled = Spooled(engine, settings.data_dir, runs)
    spooled.append(700)
    proxy, url = in_front_of(database_url)
    given = settings.model_dump(exclude_unset=True) | {"database_url": url}
    flaky = make_engine(settings_module.load(**given), application_name="flaky")
    failed: list[str] = []

    def fail_once(_: object) -> None:
        if not failed:
            failed.append("commit")
            proxy.cut()
            proxy.restore()

    with proxy:
        if lost == "answer":
            proxy.lose_answer_to(b"COMMIT")
        else:
            event.listen(flaky, "commit", fail_once)
        shipper = ship(flaky)
        wait_until(lambda: exact(engine, spooled))
        spooled.append(300)
        spooled.end()
        shipper.wake()
        assert wait_final(engine, spooled.job_id).status == "successful"
        assert exact(engine, spooled)
        assert proxy.lost_answers == (1 if lost == "answer" else 0)
        assert failed == ([] if lost == "answer" else ["commit"])
    flaky.dispose()


def test_many_runs_share_transactions_and_none_waits_for_a_large_one(
    settings: Settings, engine: Engine, runs: Runs, ship: Start
) -> None:
    large = Spooled(engine, settings.data_dir, runs)
    large.append(4 * MOST_EVENTS, stdout="x" * 200)
    large.end()
    small = [Spooled(engine, settings.data_dir, runs) for _ in range(20)]
    for each in small:
        each.append(5)
        each.end()
    ship(engine)
    rows = [wait_final(engine, each.job_id) for each in (*small, large)]
    assert {row.status for row in rows} == {"successful"}
    assert max(row.finished for row in rows[:-1]) < rows[-1].finished
    assert all(exact(engine, each) for each in (*small, large))


def test_the_recap_of_ten_thousand_hosts_is_stored_with_the_final_status(
    settings: Settings, engine: Engine, runs: Runs, ship: Start
) -> None:
    spooled = Spooled(engine, settings.data_dir, runs)
    spooled.append(3)
    spooled.end(hosts=10_000)
    ship(engine)
    wait_final(engine, spooled.job_id)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM job_host_summary")) == 10_000
        result = connection.execute(select(t.job_result)).one()
    assert result.artifacts == {"version": "1.2"}
    assert len(result.evidence["stats"]) == 2, "hosts are stored once, in their summaries"


def test_a_run_with_events_missing_never_ends_successful(
    settings: Settings, engine: Engine, runs: Runs, ship: Start
) -> None:
    spooled = Spooled(engine, settings.data_dir, runs)
    spooled.append(3)
    spooled.end(total=4)
    ship(engine)
    row = wait_final(engine, spooled.job_id)
    assert (row.status, row.outcome, row.events_complete) == ("error", "internal", False)
    assert "3 of 4 events" in row.explanation


def test_one_run_whose_events_the_database_refuses_holds_up_no_other(
    settings: Settings,
    engine: Engine,
    runs: Runs,
    ship: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workers.shipper.MOST_STRIKES", 2)
    bad, good = (Spooled(engine, settings.data_dir, runs) for _ in range(2))
    bad.append(2)
    bad.append(1, event_data="no json")
    good.append(3)
    for each in (bad, good):
        each.end()
    ship(engine)
    assert wait_final(engine, good.job_id).status == "successful"
    assert exact(engine, good)
    row = wait_final(engine, bad.job_id)
    assert (row.status, row.outcome, row.events_complete) == ("error", "internal", False)
    assert "cannot be stored" in row.explanation


def test_a_database_that_refuses_everybody_is_waited_for_and_nobody_is_to_blame(
    settings: Settings,
    engine: Engine,
    runs: Runs,
    ship: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fail-over leaves the old connection on a server that only reads."""
    monkeypatch.setattr("workers.shipper.MOST_STRIKES", 1)
    spooled = Spooled(engine, settings.data_dir, runs)
    spooled.append(3)
    spooled.end()
    with engine.begin() as connection:
        name = connection.scalar(text("SELECT current_database()"))
        connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
    standby = make_engine(settings, application_name="standby")

    def any_server(_: object, __: object, ___: object, arguments: dict[str, str]) -> None:
        arguments.pop("target_session_attrs")

    event.listen(standby, "do_connect", any_server)
    shipper = ship(standby)
    wait_until(lambda: shipper.away)
    with engine.begin() as connection:
        connection.execute(text("SET TRANSACTION READ WRITE"))
        connection.execute(text(f"ALTER DATABASE {name} RESET default_transaction_read_only"))
    assert wait_final(engine, spooled.job_id).status == "successful"
    assert exact(engine, spooled)
    standby.dispose()


def test_nothing_is_stored_for_a_job_that_has_been_taken_away(
    settings: Settings, engine: Engine, runs: Runs, ship: Start
) -> None:
    spooled = Spooled(engine, settings.data_dir, runs)
    shipper = ship(engine)
    with engine.begin() as connection:
        connection.execute(update(t.job).values(dispatch_id=uuid4()))
    spooled.append(3)
    spooled.end()
    shipper.wake()
    wait_until(shipper.refused.is_set)
    assert counters(engine, spooled.job_id) == []
    assert job_row(engine, spooled.job_id).status == "running"


def test_a_cancel_wins_over_what_the_playbook_reached_and_that_is_noted(
    settings: Settings, engine: Engine, runs: Runs, ship: Start
) -> None:
    spooled = Spooled(engine, settings.data_dir, runs)
    spooled.append(3)
    with engine.begin() as connection:
        connection.execute(
            update(t.job).values(cancel_requested=True, canceled_on=text("dispatcher_now()"))
        )
    spooled.end()
    ship(engine)
    row = wait_final(engine, spooled.job_id)
    assert (row.status, row.outcome) == ("canceled", "canceled")
    with engine.connect() as connection:
        assert connection.scalar(select(t.job_result.c.playbook_outcome)) == "successful"
