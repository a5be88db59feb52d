"""Nodes coming, coming back and being refused, also many at once."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, select, text

from dispatcher.actions.register_node import (
    Registered,
    register_node,
    set_accepting,
    update_capacity,
)
from dispatcher.broker.messages import Manager, Owed
from dispatcher.db import tables as t
from dispatcher.db.change import read_counter
from dispatcher.db.engine import transaction
from dispatcher.errors import ConfigurationError, NotFound
from tests.factories import make_job, make_node
from tests.racing import at_once

MEASURED: dict[str, Any] = {
    "cpus": 2.0,
    "memory": 8 << 30,
    "fixed_capacity": None,
    "adjustment": 1.0,
    "max_jobs": 200,
}
IDENTITY = uuid.UUID(int=1)
OTHER = uuid.UUID(int=2)


def register(engine: Engine, name: str = "n1", **given: Any) -> Registered:
    values: dict[str, Any] = {
        "identity": IDENTITY,
        "machine_id": "m1",
        "groups": ["default"],
        "version": "1",
        **MEASURED,
    }
    with transaction(engine) as connection:
        return register_node(connection, name=name, **(values | given))


def set_state(engine: Engine, node_id: int, state: str) -> None:
    with transaction(engine) as connection:
        connection.execute(
            text("UPDATE node_lease SET state = :state WHERE node_id = :node"),
            {"state": state, "node": node_id},
        )


def test_a_new_node_is_alive_in_its_groups_with_its_capacity(engine: Engine) -> None:
    with transaction(engine) as connection:
        before = read_counter(connection)
    registered = register(engine, groups=["default", "gpu"])
    assert registered.epoch == 1
    assert registered.owed.wakes == {Manager.TASK}
    with transaction(engine) as connection:
        assert read_counter(connection) == before + 1
        node = connection.execute(select(t.node)).one()
        assert (node.cpu_capacity, node.mem_capacity, node.accepting) == (8, 61, True)
        lease = connection.execute(select(t.node_lease)).one()
        assert (lease.node_id, lease.epoch, lease.state) == (registered.node_id, 1, "alive")
        watch = connection.execute(select(t.node_watch)).one()
        assert (watch.seq, watch.missed) == (lease.seq, 0)
        groups = connection.execute(
            text(
                "SELECT name FROM instance_group JOIN instance_group_node"
                " ON instance_group_id = id ORDER BY name"
            )
        ).scalars()
        assert list(groups) == ["default", "gpu"]


@pytest.mark.parametrize("state", ["alive", "suspect", "lost", "left"])
def test_the_same_identity_comes_back_under_a_higher_epoch(engine: Engine, state: str) -> None:
    first = register(engine)
    set_state(engine, first.node_id, state)
    with transaction(engine) as connection:
        set_accepting(connection, first.node_id, "disk full")
        connection.execute(text("UPDATE node SET draining = true"))
        connection.execute(text("UPDATE node_watch SET missed = 40"))
    again = register(engine, max_jobs=7)
    assert (again.node_id, again.epoch) == (first.node_id, 2)
    with transaction(engine) as connection:
        node = connection.execute(select(t.node)).one()
        assert (node.accepting, node.max_jobs) == (True, 7)
        assert node.draining, "an operator's word survives a restart"
        lease = connection.execute(select(t.node_lease)).one()
        assert (lease.state, lease.seq) == ("alive", 2)
        watch = connection.execute(select(t.node_watch)).one()
        assert (watch.seq, watch.missed) == (2, 0)


@pytest.mark.parametrize("state", ["alive", "suspect"])
def test_a_name_with_a_live_lease_is_refused_to_another_identity(
    engine: Engine, state: str
) -> None:
    set_state(engine, register(engine).node_id, state)
    with pytest.raises(ConfigurationError, match="'n1' is held by another node"):
        register(engine, identity=OTHER)
    with transaction(engine) as connection:
        assert connection.execute(select(t.node.c.identity)).scalar_one() == IDENTITY
        assert connection.execute(select(t.node_lease.c.epoch)).scalar_one() == 1


def test_a_copied_data_directory_on_another_machine_is_another_identity(engine: Engine) -> None:
    first = register(engine)
    with pytest.raises(ConfigurationError, match="machine m1"):
        register(engine, machine_id="m2")
    assert register(engine, machine_id="").epoch == 2, "a machine without an id is not judged by it"
    assert register(engine, machine_id="m3").epoch == 3
    set_state(engine, first.node_id, "lost")
    moved = register(engine, machine_id="m4")
    assert (moved.node_id, moved.epoch) == (first.node_id, 4)


def test_one_data_directory_is_not_two_live_nodes(engine: Engine) -> None:
    first = register(engine)
    with pytest.raises(ConfigurationError, match="belongs to node 'n1'"):
        register(engine, "n2")
    set_state(engine, first.node_id, "left")
    assert register(engine, "n2").node_id != first.node_id


@pytest.mark.parametrize("state", ["lost", "left"])
def test_the_name_of_a_gone_node_is_taken_over_and_a_tombstone_stays(
    engine: Engine, state: str
) -> None:
    old = register(engine)
    set_state(engine, old.node_id, state)
    with transaction(engine) as connection:
        job_id = make_job(connection, status="running", node_id=old.node_id)
    with pytest.raises(ConfigurationError, match="its jobs have ended"):
        register(engine, identity=OTHER)
    with transaction(engine) as connection:
        connection.execute(
            text(
                "UPDATE job SET status = 'error', outcome = 'node_lost',"
                " finished = dispatcher_now() WHERE id = :job"
            ),
            {"job": job_id},
        )
    new = register(engine, identity=OTHER)
    assert new.node_id != old.node_id
    with transaction(engine) as connection:
        rows = connection.execute(select(t.node.c.id, t.node.c.removed).order_by(t.node.c.id)).all()
    assert [(r.id, r.removed is None) for r in rows] == [(old.node_id, False), (new.node_id, True)]


@pytest.mark.parametrize("group", ["", " ", "a\nb", "x" * 101])
def test_a_group_without_a_fit_name_is_refused(engine: Engine, group: str) -> None:
    with pytest.raises(ConfigurationError, match="node groups"):
        register(engine, groups=[group])


def test_of_many_identities_that_want_one_name_exactly_one_gets_it(engine: Engine) -> None:
    outcomes = at_once(
        [lambda n=n: register(engine, identity=uuid.UUID(int=n)) for n in range(1, 5)]
    )
    assert sum(isinstance(o, Registered) for o in outcomes) == 1
    assert sum(isinstance(o, ConfigurationError) for o in outcomes) == 3
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM node")).scalar() == 1
        assert connection.execute(text("SELECT count(*) FROM node_lease")).scalar() == 1


def test_many_nodes_that_make_the_same_groups_all_get_in(engine: Engine) -> None:
    outcomes = at_once(
        [
            lambda n=n: register(
                engine, f"n{n}", identity=uuid.UUID(int=n), groups=["b", "a", "c"][:: (-1) ** n]
            )
            for n in range(1, 5)
        ]
    )
    assert all(isinstance(o, Registered) for o in outcomes), outcomes
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM instance_group_node")).scalar() == 12


def test_restarts_of_one_node_at_once_all_get_different_epochs(engine: Engine) -> None:
    outcomes = at_once([lambda: register(engine)] * 4)
    assert sorted(o.epoch for o in outcomes if isinstance(o, Registered)) == [1, 2, 3, 4]


def test_only_a_changed_capacity_wakes_anybody(engine: Engine) -> None:
    node_id = register(engine).node_id
    with transaction(engine) as connection:
        before = read_counter(connection)
        assert update_capacity(connection, node_id, **MEASURED) == Owed()
        assert read_counter(connection) == before
        owed = update_capacity(connection, node_id, **(MEASURED | {"cpus": 1.5}))
        assert owed.wakes == {Manager.TASK}
        assert read_counter(connection) == before + 1
        assert connection.execute(select(t.node.c.cpu_capacity)).scalar_one() == 6
        owed = update_capacity(connection, node_id, **(MEASURED | {"fixed_capacity": 3}))
        assert owed.wakes == {Manager.TASK}


def test_a_node_that_stops_claiming_gives_its_waiting_jobs_back(engine: Engine) -> None:
    node_id = register(engine).node_id
    with transaction(engine) as connection:
        other = make_node(connection, "n2")
        mine = make_job(connection, status="waiting", node_id=node_id)
        running = make_job(connection, status="running", node_id=node_id)
        foreign = make_job(connection, status="waiting", node_id=other)
        result = set_accepting(connection, node_id, "disk full")
        assert result.returned == [mine]
        assert result.owed.wakes == {Manager.TASK}
    with transaction(engine) as connection:
        statuses = {
            row.id: row.status for row in connection.execute(select(t.job.c.id, t.job.c.status))
        }
        assert statuses == {mine: "pending", running: "running", foreign: "waiting"}
        reason = connection.execute(
            select(t.job.c.pending_reason).where(t.job.c.id == mine)
        ).scalar_one()
        assert reason == {"code": "returned", "data": {"node": "n1", "why": "disk full"}}
        # a pass with an older snapshot starts another one: the next call returns it too
        late = make_job(connection, status="waiting", node_id=node_id)
        assert set_accepting(connection, node_id, "disk full").returned == [late]
        assert set_accepting(connection, node_id, "disk full").owed == Owed()
        assert set_accepting(connection, node_id, "").owed.wakes == {Manager.TASK}
        assert set_accepting(connection, node_id, "").owed == Owed()
        with pytest.raises(NotFound):
            set_accepting(connection, 4711, "")
