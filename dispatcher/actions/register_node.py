"""A node's entry into the cluster, and what it says of itself later (docs/protocols.md 3.6, 3.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

from dispatcher.broker.messages import Manager, Owed, wake
from dispatcher.db import job_moves
from dispatcher.db.change import raise_counter
from dispatcher.domain.capacity import cpu_capacity, mem_capacity
from dispatcher.domain.text import has_control
from dispatcher.errors import ConfigurationError, NotFound

#: Lease states under which a node may still run playbooks.
_LIVE: Final = ("alive", "suspect")
_TRIES: Final = 5
_LONGEST_GROUP: Final = 100


@dataclass(frozen=True)
class Registered:
    """A node that is in the cluster; every write of its agent carries ``epoch``."""

    node_id: int
    epoch: int
    owed: Owed


@dataclass(frozen=True)
class Accepting:
    """What :func:`set_accepting` changed: the jobs that went back to pending, and what is owed."""

    returned: list[int]
    owed: Owed


@dataclass(frozen=True)
class _Present:
    node_id: int
    identity: UUID
    machine_id: str
    state: str

    def is_same(self, identity: UUID, machine_id: str) -> bool:
        """The same data directory, not a copy of it on another machine."""
        same_machine = self.machine_id == machine_id or not (self.machine_id and machine_id)
        return self.identity == identity and same_machine


def register_node(
    connection: Connection,
    *,
    name: str,
    identity: UUID,
    machine_id: str,
    groups: Sequence[str],
    cpus: float,
    memory: int,
    fixed_capacity: int | None,
    adjustment: float,
    max_jobs: int,
    version: str,
) -> Registered:
    """Enter a node into the cluster, or come back under the same name with a higher epoch.

    Args:
        name: unique among the nodes that are present.
        identity: made once for each data directory.
        machine_id: of the machine; empty when it has none.
        groups: instance groups to join; missing ones are made.
        cpus: number of CPUs, a fraction where a cgroup limits them.
        memory: bytes.
        fixed_capacity: set by hand, or None.
        adjustment: see :func:`dispatcher.domain.capacity.node_capacity`.
        max_jobs: most runs at once.
        version: of the code.

    Raises:
        ConfigurationError: the name is held by another identity with a live lease, this identity
            is alive under another name, or a group's name is not fit.
    """
    for group in groups:
        if not group.strip() or len(group) > _LONGEST_GROUP or has_control(group):
            raise ConfigurationError(f"node groups: {group!r} is not a name")
    _refuse_second_name(connection, name, identity)
    columns = _columns(
        cpus=cpus,
        memory=memory,
        fixed_capacity=fixed_capacity,
        adjustment=adjustment,
        max_jobs=max_jobs,
    ) | {"identity": identity, "machine_id": machine_id, "version": version}
    for _ in range(_TRIES):
        present = _lock_present(connection, name)
        if present is None:
            node_id = _insert(connection, name, columns)
            if node_id is None:
                continue  # somebody else came first: look again
        elif present.identity == identity and (
            present.is_same(identity, machine_id) or present.state not in _LIVE
        ):
            node_id = _come_back(connection, present.node_id, columns)
        elif present.state in _LIVE or _has_active_jobs(connection, present.node_id):
            raise ConfigurationError(
                f"node name {name!r} is held by another node (identity {present.identity},"
                f" machine {present.machine_id or 'unknown'}, {present.state}): choose another"
                " name, or wait until that node has left or is lost and its jobs have ended"
            )
        else:
            _bury(connection, present.node_id)
            continue
        epoch = _take_lease(connection, node_id)
        _join(connection, node_id, groups)
        raise_counter(connection)
        return Registered(node_id, epoch, wake(Manager.TASK))
    raise ConfigurationError(f"node name {name!r} is being registered by another node: try again")


def update_capacity(
    connection: Connection,
    node_id: int,
    *,
    cpus: float,
    memory: int,
    fixed_capacity: int | None,
    adjustment: float,
    max_jobs: int,
) -> Owed:
    """Write a node's measured capacity; nothing is owed when it has not changed."""
    columns = _columns(
        cpus=cpus,
        memory=memory,
        fixed_capacity=fixed_capacity,
        adjustment=adjustment,
        max_jobs=max_jobs,
    )
    names = list(columns)
    changed = connection.execute(
        text(
            f"UPDATE node SET {_assignments(names)}, modified = dispatcher_now()"
            f" WHERE id = :node_id AND ({', '.join(names)}) IS DISTINCT FROM"
            f" ({', '.join(_parameter(n) for n in names)})"
        ),
        columns | {"node_id": node_id},
    )
    if changed.rowcount == 0:
        return Owed()
    raise_counter(connection)
    return wake(Manager.TASK)


def set_accepting(connection: Connection, node_id: int, reason: str) -> Accepting:
    """Say that a node claims jobs (``reason`` empty) or why it does not.

    When it does not, its waiting jobs go back to pending in the same transaction, each time this
    is called: a pass that read the node before may have started another one on it.

    Raises:
        NotFound: no such node.
    """
    row = connection.execute(
        text("SELECT name, not_accepting_reason FROM node WHERE id = :node FOR NO KEY UPDATE"),
        {"node": node_id},
    ).one_or_none()
    if row is None:
        raise NotFound(f"no node {node_id}")
    name, before = row
    if before != reason:
        connection.execute(
            text(
                "UPDATE node SET accepting = :accepting, not_accepting_reason = :reason,"
                " modified = dispatcher_now() WHERE id = :node"
            ),
            {"accepting": reason == "", "reason": reason, "node": node_id},
        )
    returned: list[int] = []
    if reason:
        returned = job_moves.return_jobs(
            connection,
            reason={"code": "returned", "data": {"node": name, "why": reason}},
            node_ids=[node_id],
        )
    if before == reason and not returned:
        return Accepting([], Owed())
    raise_counter(connection)
    return Accepting(returned, wake(Manager.TASK))


def _columns(
    *,
    cpus: float,
    memory: int,
    fixed_capacity: int | None,
    adjustment: float,
    max_jobs: int,
) -> dict[str, Any]:
    return {
        "cpus": cpus,
        "memory": memory,
        "cpu_capacity": cpu_capacity(cpus),
        "mem_capacity": mem_capacity(memory),
        "fixed_capacity": fixed_capacity,
        "capacity_adjustment": adjustment,
        "max_jobs": max_jobs,
    }


#: Parameters whose type PostgreSQL cannot know when they are compared or null.
_TYPES: Final = {
    "cpus": "double precision",
    "memory": "bigint",
    "fixed_capacity": "integer",
    "capacity_adjustment": "double precision",
    "identity": "uuid",
}


def _parameter(column: str) -> str:
    return f"CAST(:{column} AS {_TYPES[column]})" if column in _TYPES else f":{column}"


def _assignments(names: Sequence[str]) -> str:
    return ", ".join(f"{name} = {_parameter(name)}" for name in names)


def _refuse_second_name(connection: Connection, name: str, identity: UUID) -> None:
    """One data directory is one node: its run directories belong to one name."""
    other = connection.scalar(
        text(
            "SELECT node.name FROM node JOIN node_lease ON node_lease.node_id = node.id"
            " WHERE node.identity = CAST(:identity AS uuid) AND node.name <> :name"
            " AND node.removed IS NULL AND node_lease.state = ANY(:live) LIMIT 1"
        ),
        {"identity": str(identity), "name": name, "live": list(_LIVE)},
    )
    if other is not None:
        raise ConfigurationError(
            f"node name {name!r}: this data directory belongs to node {other!r}, which has not"
            " left yet: give each node a data directory of its own"
        )


def _lock_present(connection: Connection, name: str) -> _Present | None:
    """The node that holds a name, with its lease row locked, then its own."""
    find = text("SELECT id FROM node WHERE name = :name AND removed IS NULL")
    node_id = connection.scalar(find, {"name": name})
    if node_id is None:
        return None
    state = connection.scalar(
        text("SELECT state FROM node_lease WHERE node_id = :node FOR UPDATE"), {"node": node_id}
    )
    row = connection.execute(
        text(
            "SELECT identity, machine_id FROM node WHERE id = :node AND removed IS NULL"
            " FOR NO KEY UPDATE"
        ),
        {"node": node_id},
    ).one_or_none()
    if row is None:
        return None
    return _Present(node_id, row.identity, row.machine_id, state or "left")


def _insert(connection: Connection, name: str, columns: dict[str, Any]) -> int | None:
    """A new node; None when the name was taken meanwhile (waits for whoever is taking it)."""
    names = ", ".join(columns)
    values = ", ".join(_parameter(column) for column in columns)
    node_id: int | None = connection.scalar(
        text(
            f"INSERT INTO node (name, {names}) VALUES (:name, {values})"
            " ON CONFLICT (name) WHERE removed IS NULL DO NOTHING RETURNING id"
        ),
        _texts(columns) | {"name": name},
    )
    return node_id


def _come_back(connection: Connection, node_id: int, columns: dict[str, Any]) -> int:
    """The same node again. What operators set (enabled, draining) stays."""
    connection.execute(
        text(
            f"UPDATE node SET {_assignments(list(columns))}, accepting = true,"
            " not_accepting_reason = '', modified = dispatcher_now() WHERE id = :node_id"
        ),
        _texts(columns) | {"node_id": node_id},
    )
    return node_id


def _texts(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: str(v) if isinstance(v, UUID) else v for name, v in columns.items()}


def _has_active_jobs(connection: Connection, node_id: int) -> bool:
    return bool(
        connection.scalar(
            text(
                "SELECT EXISTS (SELECT 1 FROM job WHERE node_id = :node"
                " AND status IN ('waiting', 'running'))"
            ),
            {"node": node_id},
        )
    )


def _bury(connection: Connection, node_id: int) -> None:
    """Leave a tombstone: jobs go on naming the node, its name is free."""
    connection.execute(
        text("UPDATE node SET removed = dispatcher_now() WHERE id = :node"), {"node": node_id}
    )


def _take_lease(connection: Connection, node_id: int) -> int:
    """A new epoch, alive. ``seq`` goes on, so that recovery never acts on what it saw before."""
    epoch, seq = connection.execute(
        text(
            "INSERT INTO node_lease AS l (node_id, epoch, state, seq) VALUES (:node, 1, 'alive', 1)"
            " ON CONFLICT (node_id) DO UPDATE SET epoch = l.epoch + 1, state = 'alive',"
            " seq = l.seq + 1, renewed_at = dispatcher_now() RETURNING epoch, seq"
        ),
        {"node": node_id},
    ).one()
    connection.execute(
        text(
            "INSERT INTO node_watch (node_id, seq) VALUES (:node, :seq) ON CONFLICT (node_id)"
            " DO UPDATE SET seq = :seq, missed = 0, ticked_at = dispatcher_now()"
        ),
        {"node": node_id, "seq": seq},
    )
    return int(epoch)


def _join(connection: Connection, node_id: int, groups: Sequence[str]) -> None:
    names = sorted(set(groups))  # one order for everybody, so that two nodes never deadlock
    for name in names:
        connection.execute(
            text("INSERT INTO instance_group (name) VALUES (:name) ON CONFLICT DO NOTHING"),
            {"name": name},
        )
    connection.execute(
        text(
            "INSERT INTO instance_group_node (instance_group_id, node_id)"
            " SELECT id, :node FROM instance_group WHERE name = ANY(:names)"
            " ON CONFLICT DO NOTHING"
        ),
        {"node": node_id, "names": names},
    )
