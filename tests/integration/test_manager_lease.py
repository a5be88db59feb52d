"""Leases of managers: one holder, fenced by the epoch, and no request is ever lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from dispatcher.db.engine import make_engine, transaction
from dispatcher.errors import LeaseLost
from dispatcher.settings import Settings
from schedulers.passes import manager_lease
from schedulers.passes.holder import Holder
from schedulers.passes.manager_lease import Lease
from tests.racing import at_once
from tests.roles import ROOT
from tests.waiting import wait_until

NAME = "task"


def elsewhere() -> Holder:
    """A holder on another machine: nobody here can see whether it lives."""
    return replace(Holder.of_this_process(), id=uuid.uuid4(), host="other/pid:[1]")


def taken(engine: Engine, holder: Holder, seconds: float = 20.0) -> Lease:
    lease = manager_lease.take(engine, NAME, holder, seconds)
    assert lease is not None
    return lease


def test_a_free_lease_is_taken_and_a_held_one_is_not(engine: Engine) -> None:
    taken(engine, elsewhere())
    assert manager_lease.take(engine, NAME, elsewhere(), 20.0) is None


def test_of_many_that_try_at_once_one_takes_it(engine: Engine) -> None:
    calls = [lambda: manager_lease.take(engine, NAME, elsewhere(), 20.0) for _ in range(5)]
    assert len([lease for lease in at_once(calls) if lease is not None]) == 1


def test_an_expired_lease_is_taken_by_another_holder(engine: Engine) -> None:
    first = taken(engine, elsewhere(), seconds=0.2)
    second = wait_until(lambda: manager_lease.take(engine, NAME, elsewhere(), 20.0), timeout=5)
    assert second.epoch == first.epoch + 1


def test_taking_ones_own_lease_again_raises_the_epoch(engine: Engine) -> None:
    holder = Holder.of_this_process()
    first = taken(engine, holder)
    assert taken(engine, holder).epoch == first.epoch + 1
    with pytest.raises(LeaseLost), transaction(engine) as connection:
        manager_lease.renew(connection, first)


def test_renewing_keeps_the_lease_beyond_its_first_end(engine: Engine) -> None:
    lease = taken(engine, elsewhere(), seconds=0.3)
    before = expiry(engine)
    with transaction(engine) as connection:
        manager_lease.renew(connection, replace(lease, seconds=20.0))
    assert expiry(engine) > before + 15


def test_a_lease_that_the_clock_was_set_back_under_can_be_taken(engine: Engine) -> None:
    taken(engine, elsewhere())
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE manager_lease SET expires_at = dispatcher_now() + interval '1 hour'")
        )
    taken(engine, elsewhere())


def test_a_locked_row_is_busy_without_waiting(engine: Engine) -> None:
    lease = taken(engine, elsewhere(), seconds=0.01)
    with transaction(engine) as connection:
        manager_lease.renew(connection, lease)
        assert manager_lease.take(engine, NAME, elsewhere(), 20.0) is None


def test_a_sibling_takes_over_at_once_from_a_process_that_is_gone(engine: Engine) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = Holder.of_this_process().sees_gone  # the same machine, the same namespace
    victim = replace(
        Holder.of_this_process(),
        id=uuid.uuid4(),
        pid=process.pid,
        pid_start=start_time(process.pid),
    )
    assert not start(victim)
    taken(engine, victim)
    sibling = Holder.of_this_process()
    assert manager_lease.take(engine, NAME, sibling, 20.0) is None
    process.kill()  # not reaped: a zombie holds nothing either
    wait_until(lambda: manager_lease.take(engine, NAME, sibling, 20.0), timeout=5)
    process.communicate()


def test_a_pid_that_was_given_away_again_is_told_apart(engine: Engine) -> None:
    me = Holder.of_this_process()
    assert me.sees_gone(replace(me, pid_start=me.pid_start - 1))
    assert not me.sees_gone(me)
    assert not me.sees_gone(replace(me, boot_id="another", pid_start=0))


def test_a_window_left_open_by_a_killed_holder_is_counted(engine: Engine) -> None:
    first = taken(engine, elsewhere(), seconds=0.1)
    with transaction(engine) as connection:
        manager_lease.renew(connection, replace(first, seconds=0.1))
        manager_lease.open_window(connection, first, [7, 8])
    second = wait_until(lambda: manager_lease.take(engine, NAME, elsewhere(), 0.1), timeout=5)
    assert (second.window_jobs, second.window_kills) == ((7, 8), 1)
    third = wait_until(lambda: manager_lease.take(engine, NAME, elsewhere(), 5), timeout=5)
    assert (third.window_jobs, third.window_kills) == ((7, 8), 2)


def test_a_window_left_open_by_an_error_in_a_living_process_is_no_kill(engine: Engine) -> None:
    holder = Holder.of_this_process()
    first = taken(engine, holder)
    with transaction(engine) as connection:
        manager_lease.renew(connection, first)
        manager_lease.open_window(connection, first, [7])
    assert taken(engine, holder).window_kills == 0


FROZEN_HOLDER = """
import sys
from dispatcher import settings
from dispatcher.db import job_moves
from dispatcher.db.engine import make_engine, transaction
from dispatcher.domain.outcome import Outcome
from dispatcher.errors import LeaseLost
from schedulers.passes import manager_lease
from schedulers.passes.holder import Holder
engine = make_engine(settings.load(), application_name="frozen")
lease = manager_lease.take(engine, "task", Holder.of_this_process(), 1.0)
print("taken", lease.epoch, flush=True)
sys.stdin.readline()
try:
    with transaction(engine) as connection:
        manager_lease.renew(connection, lease)
        connection.execute(manager_lease.text("UPDATE organization SET name = 'late write'"))
    print("written", flush=True)
except LeaseLost as error:
    print("refused", error, flush=True)
"""


def test_the_late_write_of_a_frozen_holder_is_refused(engine: Engine, settings: Settings) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FROZEN_HOLDER],
        cwd=ROOT,
        env={**os.environ, "DISPATCHER_DATABASE_URL": str(settings.database_url)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("taken")
        process.send_signal(signal.SIGSTOP)
        newcomer = Holder.of_this_process()
        # it is frozen, not gone: only the end of the lease frees it
        wait_until(lambda: manager_lease.take(engine, NAME, newcomer, 20.0), timeout=10)
        process.send_signal(signal.SIGCONT)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith("refused")
    finally:
        process.kill()
        process.communicate()
    with engine.connect() as connection:
        names = connection.scalars(text("SELECT name FROM organization")).all()
    assert "late write" not in names


def test_a_holder_frozen_inside_its_transaction_loses_it_and_the_lease(
    engine: Engine, settings: Settings
) -> None:
    """Its backend is ended by the idle time-out; then the row is free for the newcomer."""
    frozen = make_engine(settings, application_name="frozen")
    lease = taken(engine, elsewhere(), seconds=0.5)
    newcomers: list[Lease] = []

    def write_late() -> None:
        with transaction(frozen, idle_timeout=1.0) as connection:
            manager_lease.renew(connection, replace(lease, seconds=0.5))
            newcomers.append(
                wait_until(lambda: manager_lease.take(engine, NAME, elsewhere(), 20.0), timeout=10)
            )
            connection.execute(text("UPDATE organization SET name = 'late write'"))

    with pytest.raises(DBAPIError, match=r"idle-in-transaction|terminating|closed"):
        write_late()
    assert newcomers[0].epoch == lease.epoch + 1
    frozen.dispose()


# -- the request counter, under every order of steps


class Worker:
    """A trigger, step by step as ``Runner.trigger`` takes them; a pass sees every job committed."""

    def __init__(self, engine: Engine, world: World) -> None:
        self.engine = engine
        self.world = world
        self.steps = self._run()

    def _run(self) -> Iterator[None]:
        self.world.jobs += 1
        job = self.world.jobs
        yield  # the job is committed; the trigger comes later
        manager_lease.request(self.engine, NAME)
        yield
        while True:
            lease = manager_lease.take(self.engine, NAME, elsewhere(), 20.0)
            if lease is None:
                return
            yield
            seen = self.world.jobs
            yield
            self.world.considered = max(self.world.considered, seen)
            with transaction(self.engine) as connection:
                manager_lease.renew(connection, lease)
                manager_lease.release(connection, lease, completed=True)
            yield
            with transaction(self.engine) as connection:
                asked = manager_lease.requested(connection, NAME)
            yield
            if asked <= lease.asked:
                assert job is not None
                return


class World:
    jobs = 0
    considered = 0


def test_no_request_is_lost_whatever_the_order_of_steps(engine: Engine) -> None:
    for seed in range(150):
        random = Random(seed)
        world = World()
        running = [Worker(engine, world) for _ in range(random.randint(2, 4))]
        while running:
            worker = random.choice(running)
            if next(worker.steps, StopIteration) is StopIteration:
                running.remove(worker)
        assert world.considered == world.jobs, f"seed {seed}"


def expiry(engine: Engine) -> float:
    with engine.connect() as connection:
        return float(
            connection.execute(
                text(
                    "SELECT EXTRACT(epoch FROM expires_at) FROM manager_lease WHERE manager = :name"
                ),
                {"name": NAME},
            ).scalar_one()
        )


def start_time(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])
